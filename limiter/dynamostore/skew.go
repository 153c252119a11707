package dynamostore

import (
	"errors"
	"net/http"
	"time"

	awsmiddleware "github.com/aws/aws-sdk-go-v2/aws/middleware"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
)

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
