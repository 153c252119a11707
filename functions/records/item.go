package records

import (
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/weir-limits/weir/functions/contract"
)

// Item is an item of the table. The methods that read work on a nil Item.
type Item map[string]types.AttributeValue

// NewItem returns an item with a partition key and no other attribute. It serves as the Key of a
// request, too.
func NewItem(key string) Item {
	return Item{contract.KeyAttribute: &types.AttributeValueMemberS{Value: key}}
}

// SetText sets an attribute to a string. It does nothing for an empty string.
func (it Item) SetText(name, text string) {
	if text != "" {
		it[name] = &types.AttributeValueMemberS{Value: text}
	}
}

// SetBinary sets an attribute to bytes.
func (it Item) SetBinary(name string, value []byte) {
	it[name] = &types.AttributeValueMemberB{Value: value}
}

// Text returns an attribute, "" if it is missing or not a string.
func (it Item) Text(name string) string {
	if s, ok := it[name].(*types.AttributeValueMemberS); ok {
		return s.Value
	}
	return ""
}

// Binary returns an attribute, nil if it is missing or not binary.
func (it Item) Binary(name string) []byte {
	if b, ok := it[name].(*types.AttributeValueMemberB); ok {
		return b.Value
	}
	return nil
}
