package rulestore

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
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

// Publisher publishes the document of a stack. CloudFormation invokes it when the document changes, also in
// the rollback of an update. Every publication gets a higher version than all before, so that the document
// of a rollback also decides for callers that were counted under the rejected document.
type Publisher struct {
	API   records.Writer
	Clock func() time.Time
}

// publications bounds the attempts of one publication. More than two are needed only if another
// publication runs at the same time.
const publications = 5

// Publish is a cfn.CustomResourceFunction. The resource has the properties contract.PropertyTable,
// PropertyNamespace and PropertyDocument. Its deletion changes nothing, because functions outside the stack
// may use the document.
func (p *Publisher) Publish(ctx context.Context, e cfn.Event) (id string, _ map[string]any, err error) {
	if e.RequestType == cfn.RequestDelete {
		return e.PhysicalResourceID, nil, nil
	}
	property := func(name string) string {
		s, _ := e.ResourceProperties[name].(string)
		return s
	}
	id = contract.DeployedRulesKey(property(contract.PropertyNamespace))
	compressed, err := base64.StdEncoding.DecodeString(property(contract.PropertyDocument))
	if err != nil {
		return id, nil, fmt.Errorf("%s: %w", contract.PropertyDocument, err)
	}
	document, err := expand(compressed)
	if err != nil {
		return id, nil, fmt.Errorf("%s: %w", contract.PropertyDocument, err)
	}
	now := p.Clock()
	v := Version{Version: now.Unix(), Published: now, Bytes: len(document)}
	for range publications {
		newest, err := p.put(ctx, property(contract.PropertyTable), id, v, compressed)
		if err != nil || newest == 0 {
			return id, nil, err
		}
		v.Version = newest + 1
	}
	return id, nil, fmt.Errorf("records table: item %s: %w", id, ErrConflict)
}

// put writes version v unless the table has the same or a higher version. It returns that version, or 0 if
// it wrote v.
func (p *Publisher) put(ctx context.Context, table, key string, v Version, compressed []byte) (newest int64, err error) {
	if v.Version > limiter.MaxVersion {
		return 0, fmt.Errorf("version: got %d, want at most %d", v.Version, int64(limiter.MaxVersion))
	}
	it := v.item(key, compressed)
	_, err = p.API.PutItem(ctx, &dynamodb.PutItemInput{
		TableName: &table, Item: it,
		ConditionExpression:                 aws.String("attribute_not_exists(#version) OR #version < :version"),
		ExpressionAttributeNames:            map[string]string{"#version": versionAttribute},
		ExpressionAttributeValues:           records.Item{":version": &types.AttributeValueMemberN{Value: strconv.FormatInt(v.Version, 10)}},
		ReturnValuesOnConditionCheckFailure: types.ReturnValuesOnConditionCheckFailureAllOld,
	})
	if exists, ok := errors.AsType[*types.ConditionalCheckFailedException](err); ok {
		stored, err := parseVersion(exists.Item)
		return stored.Version, err
	}
	if err != nil {
		return 0, fmt.Errorf("records table: %w", err)
	}
	return 0, nil
}
