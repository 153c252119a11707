package dynamostore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsmiddleware "github.com/aws/aws-sdk-go-v2/aws/middleware"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/smithy-go"

	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/algo"
	"github.com/weir-limits/weir/limiter/resilient"
)

// API is the part of DynamoDB that a Store calls. A *dynamodb.Client implements it. The Store disables the client's
// retries: a second copy of a correction could refund twice, and a late answer is worse than an error. An API must
// not send an update twice itself.
type API interface {
	UpdateItem(context.Context, *dynamodb.UpdateItemInput, ...func(*dynamodb.Options)) (*dynamodb.UpdateItemOutput, error)
	GetItem(context.Context, *dynamodb.GetItemInput, ...func(*dynamodb.Options)) (*dynamodb.GetItemOutput, error)
	DeleteItem(context.Context, *dynamodb.DeleteItemInput, ...func(*dynamodb.Options)) (*dynamodb.DeleteItemOutput, error)
}

// Options are the options of a Store.
type Options struct {
	// Table is the name of the table. Required.
	Table string
	// Namespace separates deployments that share a table. Required.
	Namespace string
	// Margin is the time that a refund adds to the elapsed time. It must be at least the greatest
	// difference between the clocks of two processes, plus the longest time that a refund takes
	// to arrive. 0 means DefaultMargin. Negative values are invalid.
	Margin time.Duration
	// Logger receives errors that no decision returns, at most one a minute; nil means
	// slog.Default().
	Logger *slog.Logger
}

// DefaultMargin covers clocks that differ by 1 s and refunds that arrive 1 s late.
const DefaultMargin = 2 * time.Second

// contended is the number of additional attempts, beyond those that wrong guesses can cause. A decision
// needs them if a window ends, or if other requests refund or convert a limit at the same time.
const contended = 8

// refundAttempts is the maximum number of attempts of a refund that loses races.
const refundAttempts = 4

// Store is a limiter.Store in a DynamoDB table without a breaker. It is safe for concurrent use.
type Store struct {
	Items
	api     API
	o       Options
	guesses guesses
	skew    limiter.Skew
	warned  atomic.Int64 // instant of the last logged error, in ns since 1970
}

var (
	_ limiter.Store         = (*Store)(nil)
	_ limiter.SkewEstimator = (*Store)(nil)
)

// New returns a resilient store over api for a server, with a deadline of resilient.DynamoDBTimeout. Options that are
// out of range are an error.
func New(api API, o Options) (*resilient.Store, error) {
	s, err := NewBare(api, o)
	if err != nil {
		return nil, err
	}
	return resilient.New(s, resilient.Options{Timeout: resilient.DynamoDBTimeout, Background: true})
}

// NewBare returns a Store over api without a breaker and a deadline of its own. Options that are out of range are an
// error.
func NewBare(api API, o Options) (*Store, error) {
	switch {
	case api == nil:
		return nil, errors.New("dynamostore: api: required, got nil")
	case o.Table == "":
		return nil, errors.New("dynamostore: Table: required, got an empty string")
	case o.Namespace == "":
		return nil, errors.New("dynamostore: Namespace: required, got an empty string")
	case o.Margin < 0:
		return nil, fmt.Errorf("dynamostore: Margin: out of range (got %s, want 0 for the default, or more)", o.Margin)
	}
	o.Margin = cmp.Or(o.Margin, DefaultMargin)
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	return &Store{api: api, o: o}, nil
}

// Open returns a resilient store for a process of AWS Lambda.
func Open(client *dynamodb.Client, table, namespace string) (limiter.Store, error) {
	s, err := NewBare(client, Options{Table: table, Namespace: namespace})
	if err != nil {
		return nil, err
	}
	return resilient.New(s, resilient.Options{Timeout: resilient.DynamoDBTimeout})
}

// Take implements limiter.Store.
func (s *Store) Take(ctx context.Context, now algo.Instant, subject limiter.Subject, charges []limiter.Charge, results []algo.Result) (bool,
	error) {
	t := newTake(now, charges, results, &s.guesses)
	if t.hopeless() {
		item, err := s.get(ctx, subject)
		if err != nil {
			return false, err
		}
		if err := t.learn(item); err != nil {
			return false, err
		}
	}
	attempts := t.attempts()
	for i := range attempts {
		if t.decided() {
			t.report()
			return t.passes, nil
		}
		item, applied, err := s.update(ctx, subject, t.attempt())
		// an earlier attempt was answered but lost a race, so this is contention and not an outage
		if i > 0 && errors.Is(err, context.DeadlineExceeded) {
			return false, fmt.Errorf("%w: the time ended after %d attempts: %w", limiter.ErrContended, i, err)
		}
		if err != nil {
			return false, err
		}
		guessed := !t.exact
		charged := applied && (guessed || t.passes) // if false, the attempt wrote only a conversion or a clamp
		if applied {
			t.noteClamped()
		}
		if err := t.learn(item); err != nil {
			return false, err
		}
		if guessed {
			t.teach(&s.guesses, applied)
		}
		if charged {
			t.report()
			s.tidy(ctx, now, subject, item, charges)
			return true, nil
		}
		if applied {
			s.outlive(ctx, now, subject, item, charges)
		}
	}
	if t.decided() { // the last attempt found the answer
		t.report()
		return t.passes, nil
	}
	return false, fmt.Errorf("%w: %d attempts", limiter.ErrContended, attempts)
}

// Settle implements limiter.Store.
func (s *Store) Settle(ctx context.Context, now algo.Instant, subject limiter.Subject, charges []limiter.Charge, results []algo.Result,
	elapsed time.Duration) (limiter.Settled, error) {
	late := elapsed + s.o.Margin
	return s.settle(ctx, subject, newSettlement(now, charges, results, late, &s.guesses))
}

// settle makes the corrections of a settlement.
func (s *Store) settle(ctx context.Context, subject limiter.Subject, t *settlement) (settled limiter.Settled, err error) {
	if t.needsItem() {
		item, err := s.get(ctx, subject)
		if err == nil {
			err = t.learn(item)
		}
		if err != nil {
			return settled, err
		}
	}
	attempts := t.attempts()
	for range attempts {
		e := t.attempt()
		if e.update() == nil {
			return settled, nil
		}
		if err := ctx.Err(); err != nil {
			return settled, failure(err)
		}
		item, applied, err := s.update(ctx, subject, e)
		switch {
		case err != nil:
			return settled, err
		case applied:
			if len(t.forced.charges) > 0 {
				s.tidy(ctx, t.forced.now, subject, item, t.forced.charges)
			}
			return t.settled(), nil
		}
		if err := t.learn(item); err != nil {
			return settled, err
		}
	}
	// Other requests cannot fail the condition of a release. So an update with only the releases succeeds.
	if e := t.refund.releases(); e.update() != nil {
		if _, _, err := s.update(ctx, subject, e); err != nil {
			return settled, err
		}
	}
	return settled, fmt.Errorf("%w: settlement lost all races in %d attempts", limiter.ErrContended, attempts)
}

// Inspect implements limiter.Store.
func (s *Store) Inspect(ctx context.Context, subject limiter.Subject) ([]limiter.Entry, error) {
	item, err := s.get(ctx, subject)
	if err != nil {
		return nil, err
	}
	return item.entries()
}

// Reset implements limiter.Store.
func (s *Store) Reset(ctx context.Context, subject limiter.Subject) error {
	e := newExpression()
	e.require(e.absent(sharesAttribute))
	_, err := s.api.DeleteItem(ctx, &dynamodb.DeleteItemInput{
		TableName:                           aws.String(s.o.Table),
		Key:                                 s.key(subject),
		ConditionExpression:                 e.condition(),
		ExpressionAttributeNames:            e.names,
		ReturnValuesOnConditionCheckFailure: types.ReturnValuesOnConditionCheckFailureAllOld,
	})
	if failed, ok := errors.AsType[*types.ConditionalCheckFailedException](err); ok {
		return s.resetShared(ctx, subject, failed.Item)
	}
	if err != nil {
		return failure(err)
	}
	return nil
}

// sentOnce disables the client's retries of a call, and makes its HTTP client lose no answer.
var sentOnce = []func(*dynamodb.Options){func(o *dynamodb.Options) {
	o.Retryer = aws.NopRetryer{}
	if _, ok := o.HTTPClient.(resilient.HTTPClient); !ok {
		o.HTTPClient = resilient.HTTPClient{Doer: o.HTTPClient}
	}
}}

// update makes one attempt on the item of the subject. It returns the item after the update, or the item that failed
// the condition.
func (s *Store) update(ctx context.Context, subject limiter.Subject, e *expression) (item item, applied bool, err error) {
	sent, _ := s.skew.Begin()
	values := e.values
	if len(values) == 0 { // DynamoDB rejects an empty map
		values = nil
	}
	out, err := s.api.UpdateItem(ctx, &dynamodb.UpdateItemInput{
		TableName:                           aws.String(s.o.Table),
		Key:                                 s.key(subject),
		UpdateExpression:                    e.update(),
		ConditionExpression:                 e.condition(),
		ExpressionAttributeNames:            e.names,
		ExpressionAttributeValues:           values,
		ReturnValues:                        types.ReturnValueAllNew,
		ReturnValuesOnConditionCheckFailure: types.ReturnValuesOnConditionCheckFailureAllOld,
	}, sentOnce...)
	s.observe(sent, out, err)
	if failed, ok := errors.AsType[*types.ConditionalCheckFailedException](err); ok {
		return failed.Item, false, nil
	}
	if err != nil {
		return nil, false, failure(err)
	}
	if len(out.Attributes) == 0 { // every item has a key, so this answer is not from DynamoDB
		return nil, false, fmt.Errorf("%w: answer without the item", limiter.ErrFormat)
	}
	return out.Attributes, true, nil
}

func (s *Store) get(ctx context.Context, subject limiter.Subject) (item, error) {
	out, err := s.api.GetItem(ctx, &dynamodb.GetItemInput{
		TableName:      aws.String(s.o.Table),
		Key:            s.key(subject),
		ConsistentRead: aws.Bool(!limiter.MayBeStale(ctx)),
	}, sentOnce...)
	if err != nil {
		return nil, failure(err)
	}
	return out.Item, nil
}

// failure translates an error of DynamoDB to an error of a store.
//
// - Throttling of one item is an answer (see limiter.Answered).
// - Throttling of the table or the account is an outage.
// - Rejection of an invalid request is an answer. For example, the item would become too large.
func failure(err error) error {
	if api, ok := errors.AsType[smithy.APIError](err); ok {
		switch api.ErrorCode() {
		case "ProvisionedThroughputExceededException", "ThrottlingException", "RequestLimitExceeded":
			throttled := limiter.ErrThrottled
			if byItem(err) {
				throttled = limiter.ErrItemThrottled
			}
			return fmt.Errorf("%w: %w: %w", limiter.ErrUnavailable, throttled, err)
		case "ValidationException":
			return fmt.Errorf("%w: %w: %w", limiter.ErrUnavailable, limiter.ErrRejected, err)
		}
	}
	return fmt.Errorf("%w: %w", limiter.ErrUnavailable, err)
}

// byItem reports whether DynamoDB throttled a request only because of its key range. If DynamoDB gives no reason, or
// another reason too, the whole table can be throttled.
func byItem(err error) bool {
	var reasons []types.ThrottlingReason
	if e, ok := errors.AsType[*types.ThrottlingException](err); ok {
		reasons = e.ThrottlingReasons
	} else if e, ok := errors.AsType[*types.ProvisionedThroughputExceededException](err); ok {
		reasons = e.ThrottlingReasons
	} else if e, ok := errors.AsType[*types.RequestLimitExceeded](err); ok {
		reasons = e.ThrottlingReasons
	}
	for _, r := range reasons {
		if !strings.HasSuffix(aws.ToString(r.Reason), "KeyRangeThroughputExceeded") {
			return false
		}
	}
	return len(reasons) > 0
}

// key returns the key of the item of the subject.
func (s *Store) key(subject limiter.Subject) map[string]types.AttributeValue {
	return map[string]types.AttributeValue{KeyAttribute: &types.AttributeValueMemberS{Value: subject.Key(s.o.Namespace)}}
}

// hostSpread bounds the difference between the clocks of DynamoDB's hosts. It matters because two calls
// can reach different hosts.
const hostSpread = 50 * time.Millisecond

// ClockSkew implements limiter.SkewEstimator with the Date header of every answer to an update. The
// header has whole seconds, so the estimate needs many answers to become precise.
func (s *Store) ClockSkew() (ahead, uncertainty time.Duration, ok bool) {
	ahead, uncertainty, ok = s.skew.ClockSkew()
	return ahead, uncertainty + hostSpread, ok
}

// observe records the Date of an answer, if there is one.
func (s *Store) observe(sent time.Time, out *dynamodb.UpdateItemOutput, err error) {
	var date time.Time
	if failed, ok := errors.AsType[*awshttp.ResponseError](err); ok && failed.Response != nil {
		date, _ = http.ParseTime(failed.Response.Header.Get("Date"))
	} else if err == nil && out != nil {
		date, _ = awsmiddleware.GetServerTime(out.ResultMetadata)
	}
	if !date.IsZero() {
		s.skew.Observe(sent, date, date.Add(time.Second))
	}
}
