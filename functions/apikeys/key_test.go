package apikeys

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/weir-limits/weir/functions/contract"
	"github.com/weir-limits/weir/functions/records"
)

// A key that parseKey accepts is valid. Writing and parsing it again returns the same key.
func FuzzParseKey(f *testing.F) {
	f.Add("apikey#"+strings.Repeat("0a", 32), "acme", "paid", "Acme", "2026-03-04T12:00:00Z", []byte("x"), uint8(0))
	f.Add("apikey#", "", "*", "\x1b", "yesterday", []byte(nil), uint8(0xff))
	f.Fuzz(func(t *testing.T, pk, id, tier, owner, created string, secret []byte, binary uint8) {
		item := records.Item{"key": &types.AttributeValueMemberB{Value: secret}}
		for i, text := range []string{pk, id, tier, owner, created} {
			name := []string{contract.KeyAttribute, idAttribute, tierAttribute, ownerAttribute, createdAttribute}[i]
			item[name] = &types.AttributeValueMemberS{Value: text}
			if binary>>i&1 == 1 {
				item[name] = &types.AttributeValueMemberB{Value: []byte(text)}
			}
		}
		if parsed, err := records.SecretOf("k", item); err == nil && len(parsed) != records.SecretBytes {
			t.Errorf("parsed secret: got %x, want one of the right length", parsed)
		}
		if binary&0x20 != 0 {
			item.SetText(suspendedAttribute, "true")
		}
		k, err := parseKey(item)
		if k.Suspended != (binary&0x20 != 0) {
			t.Errorf("parsed key: got %+v, want suspended only with the attribute", k)
		}
		if err != nil {
			return
		}
		if err := k.validate(); err != nil || len(k.Hash) > hashDigits {
			t.Errorf("parsed key: got %+v with error %v, want a valid key", k, err)
		}
		if y := k.Created.Year(); y < 0 || y > 9999 {
			return // RFC 3339 cannot represent this year
		}
		again, err := parseKey(k.item(strings.TrimPrefix(item.Text(contract.KeyAttribute), prefix)))
		k.Created = k.Created.Truncate(time.Second)
		if err != nil || !again.Created.Equal(k.Created) {
			t.Errorf("written and parsed again: got %+v, %v; want %+v", again, err, k)
		}
		again.Created = k.Created
		if !reflect.DeepEqual(again, k) {
			t.Errorf("written and parsed again: got %+v, want %+v", again, k)
		}
	})
}

// People edit items by hand. A key is suspended if its item has the attribute "suspended" with a value of any
// type.
func TestParseKey_suspended(t *testing.T) {
	item := Key{ID: "acme"}.item(strings.Repeat("0a", 32))
	item[suspendedAttribute] = &types.AttributeValueMemberBOOL{Value: true}
	if k, err := parseKey(item); err != nil || !k.Suspended {
		t.Errorf("got %+v, %v, want a suspended key", k, err)
	}
}
