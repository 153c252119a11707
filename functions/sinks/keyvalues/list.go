// Package keyvalues writes the list of a distribution (package edge) into a KeyValueStore of CloudFront.
package keyvalues

import (
	"context"
	"errors"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/aws"
	kvs "github.com/aws/aws-sdk-go-v2/service/cloudfrontkeyvaluestore"
	"github.com/aws/aws-sdk-go-v2/service/cloudfrontkeyvaluestore/types"
	"github.com/aws/smithy-go/logging"

	"github.com/weir-limits/weir/functions/edge"
)

// List is a KeyValueStore. It implements edge.Store.
type List struct {
	client *kvs.Client
	arn    string
}

// Open returns the KeyValueStore with this ARN. Its client retries, because no request waits for it.
func Open(config aws.Config, arn string) edge.Store {
	return &List{kvs.NewFromConfig(config, func(o *kvs.Options) { o.Logger = logging.Nop{} }), arn} // the caller logs the error once
}

// State implements edge.Store.
func (l *List) State(ctx context.Context) (tag string, size int, err error) {
	out, err := l.client.DescribeKeyValueStore(ctx, &kvs.DescribeKeyValueStoreInput{KvsARN: &l.arn})
	if err != nil {
		return "", 0, fmt.Errorf("key value store: %w", err)
	}
	return aws.ToString(out.ETag), int(aws.ToInt64(out.TotalSizeInBytes)), nil
}

// Get implements edge.Store.
func (l *List) Get(ctx context.Context, key string) (string, error) {
	out, err := l.client.GetKey(ctx, &kvs.GetKeyInput{KvsARN: &l.arn, Key: &key})
	if _, missing := errors.AsType[*types.ResourceNotFoundException](err); missing {
		return "", nil
	} else if err != nil {
		return "", fmt.Errorf("key value store: %w", err)
	}
	return aws.ToString(out.Value), nil
}

// Page implements edge.Store.
func (l *List) Page(ctx context.Context, token string) (values map[string]string, next string, err error) {
	in := &kvs.ListKeysInput{KvsARN: &l.arn, MaxResults: aws.Int32(edge.MaxPage)} // the default is 10
	if token != "" {
		in.NextToken = &token
	}
	out, err := l.client.ListKeys(ctx, in)
	if err != nil {
		return nil, "", fmt.Errorf("key value store: %w", err)
	}
	values = map[string]string{}
	for _, item := range out.Items {
		values[aws.ToString(item.Key)] = aws.ToString(item.Value)
	}
	return values, aws.ToString(out.NextToken), nil
}

// Update implements edge.Store.
func (l *List) Update(ctx context.Context, tag string, values map[string]string) error {
	in := &kvs.UpdateKeysInput{KvsARN: &l.arn, IfMatch: &tag}
	for key, value := range values {
		if value == "" {
			in.Deletes = append(in.Deletes, types.DeleteKeyRequestListItem{Key: aws.String(key)})
		} else {
			in.Puts = append(in.Puts, types.PutKeyRequestListItem{Key: aws.String(key), Value: aws.String(value)})
		}
	}
	_, err := l.client.UpdateKeys(ctx, in)
	if _, conflict := errors.AsType[*types.ConflictException](err); conflict {
		return fmt.Errorf("key value store: %w", edge.ErrConflict)
	} else if err != nil {
		return fmt.Errorf("key value store: %w", err)
	}
	return nil
}
