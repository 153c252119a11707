package rulestore

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/aws/aws-lambda-go/cfn"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/weir-limits/weir/functions/contract"
	"github.com/weir-limits/weir/functions/records"
	"github.com/weir-limits/weir/limiter"
)

// Publisher publishes the document of a stack. CloudFormation invokes it when the document changes, also in the
// rollback of an update. Every publication gets a version above all earlier publications and above the version in the
// document. So the document of a rollback also decides for callers that were counted under the rejected document. A
// deployed document also decides for callers that were counted under the same document in a bundle.
type Publisher struct {
	API   records.Writer
	Clock func() time.Time
}

// publications bounds the attempts of one publication. The first fails if the table has a document. More than two
// are needed only if another publication runs at the same time.
const publications = 5

// These attributes of the item describe the last events of CloudFormation that published a document.
const (
	eventsAttribute = "events" // ids of the last events
	sentAttribute   = "sent"   // time of the last event, in Unix seconds
)

// keptEvents is the number of ids in the item. It only matters for events without a time.
const keptEvents = 10

// publication is the change that an event requests.
type publication struct {
	version    Version // with the lowest number that it can get
	compressed []byte
	event      string // id of the event, or ""
	sent       int64  // time of the event in Unix seconds, or 0 if it is unknown
}

// Publish is a cfn.CustomResourceFunction. The resource has the properties contract.PropertyTable,
// PropertyNamespace and PropertyDocument. Its deletion changes nothing, because functions outside the stack
// may use the document. Lambda can repeat events, and deliver them late: a repeated event changes nothing and
// succeeds, and an event that is older than the last publication fails. Otherwise an event could undo a rollback.
func (p *Publisher) Publish(ctx context.Context, e cfn.Event) (id string, _ map[string]any, err error) {
	if e.RequestType == cfn.RequestDelete {
		return e.PhysicalResourceID, nil, nil
	}
	property := func(name string) string {
		s, _ := e.ResourceProperties[name].(string)
		return s
	}
	id = contract.DeployedRulesKey(property(contract.PropertyNamespace))
	n, err := p.publication(e, property(contract.PropertyDocument))
	if err != nil {
		return id, nil, fmt.Errorf("%s: %w", contract.PropertyDocument, err)
	}
	var previous records.Item
	for range publications {
		item, err := n.after(previous, id)
		if err != nil || item == nil {
			return id, nil, err
		}
		existing, written, err := p.put(ctx, property(contract.PropertyTable), item, previous)
		if err != nil || written {
			return id, nil, err
		}
		previous = existing
	}
	return id, nil, fmt.Errorf("records table: item %s: %w", id, ErrConflict)
}

func (p *Publisher) publication(e cfn.Event, packed string) (n publication, err error) {
	n.compressed, err = base64.StdEncoding.DecodeString(packed)
	if err != nil {
		return n, err
	}
	document, err := expand(n.compressed)
	if err != nil {
		return n, err
	}
	var own struct{ Version int64 }
	_ = json.Unmarshal(document, &own) // functions reject a document with mistakes, and report them
	now := p.Clock()
	n.version = Version{Version: max(now.Unix(), own.Version+1), Published: now, Bytes: len(document)}
	n.event, n.sent = e.RequestID, sentAt(e.ResponseURL, now)
	return n, nil
}

// sentAt returns when CloudFormation signed the URL of an event, in Unix seconds, or 0 if the URL does not contain
// this time. The time is at most now, so that no event can reject all later ones.
func sentAt(address string, now time.Time) int64 {
	u, err := url.Parse(address)
	if err != nil {
		return 0
	}
	sent, err := time.Parse("20060102T150405Z", u.Query().Get("X-Amz-Date"))
	if err != nil {
		return 0
	}
	return min(sent.Unix(), now.Unix())
}

// after returns the item that replaces previous. It returns nil if the event has published before.
func (n publication) after(previous records.Item, key string) (records.Item, error) {
	v, sent, events := n.version, n.sent, []types.AttributeValue(nil)
	if len(previous) > 0 {
		last, err := parseVersion(previous)
		if err != nil {
			return nil, err
		}
		v.Version = max(v.Version, last.Version+1)
		if list, ok := previous[eventsAttribute].(*types.AttributeValueMemberL); ok {
			events = list.Value
		}
		if slices.ContainsFunc(events, func(id types.AttributeValue) bool {
			s, ok := id.(*types.AttributeValueMemberS)
			return ok && s.Value == n.event
		}) {
			return nil, nil
		}
		newest := int64(0)
		if s, ok := previous[sentAttribute].(*types.AttributeValueMemberN); ok {
			newest, _ = strconv.ParseInt(s.Value, 10, 64)
		}
		if n.sent != 0 && n.sent < newest {
			return nil, fmt.Errorf("event: older than that of version %d (got %d, want %d or later, in Unix seconds); nothing was changed",
				last.Version, n.sent, newest)
		}
		sent = max(sent, newest)
	}
	if v.Version > limiter.MaxVersion {
		return nil, fmt.Errorf("version: got %d, want at most %d", v.Version, int64(limiter.MaxVersion))
	}
	item := v.item(key, n.compressed)
	if n.event != "" {
		events = append(events[max(0, len(events)-keptEvents+1):], &types.AttributeValueMemberS{Value: n.event})
	}
	item[eventsAttribute] = &types.AttributeValueMemberL{Value: events}
	item[sentAttribute] = &types.AttributeValueMemberN{Value: strconv.FormatInt(sent, 10)}
	return item, nil
}

// put replaces previous, which is empty if there is no item. If the table has another item, put writes nothing and
// returns that item.
func (p *Publisher) put(ctx context.Context, table string, item, previous records.Item) (existing records.Item, written bool, err error) {
	in := &dynamodb.PutItemInput{
		TableName: &table, Item: item,
		ConditionExpression:      aws.String("attribute_not_exists(#version)"),
		ExpressionAttributeNames: map[string]string{"#version": versionAttribute},
	}
	if len(previous) > 0 {
		in.ConditionExpression, in.ExpressionAttributeValues = aws.String("#version = :previous"),
			records.Item{":previous": previous[versionAttribute]}
	}
	return records.PutIf(ctx, p.API, in)
}
