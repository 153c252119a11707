package records

import (
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/weir-limits/weir/functions/contract"
)

// Item is an item of the table. Its methods that read an attribute accept a nil Item.
type Item map[string]types.AttributeValue

// NewItem returns an item that has only a partition key. It can also be the Key of a request.
func NewItem(key string) Item {
	return Item{contract.KeyAttribute: &types.AttributeValueMemberS{Value: key}}
}

// SetText sets an attribute to a string. For an empty string it does nothing.
func (item Item) SetText(name, text string) {
	if text != "" {
		item[name] = &types.AttributeValueMemberS{Value: text}
	}
}

// SetBinary sets an attribute to bytes.
func (item Item) SetBinary(name string, value []byte) {
	item[name] = &types.AttributeValueMemberB{Value: value}
}

// Text returns the value of an attribute. It returns "" if the attribute is missing or not a string.
func (item Item) Text(name string) string {
	if s, ok := item[name].(*types.AttributeValueMemberS); ok {
		return s.Value
	}
	return ""
}

// Binary returns the value of an attribute. It returns nil if the attribute is missing or not binary.
func (item Item) Binary(name string) []byte {
	if b, ok := item[name].(*types.AttributeValueMemberB); ok {
		return b.Value
	}
	return nil
}
