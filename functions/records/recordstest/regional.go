package recordstest

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/weir-limits/weir/functions/records"
	"github.com/weir-limits/weir/limiter/storetest"
)

var signedIn = regexp.MustCompile(`Credential=[^/]+/[0-9]+/([a-z0-9-]+)/`)

// RegionOf returns the region for which a client signed a request.
func RegionOf(r *http.Request) string {
	if m := signedIn.FindStringSubmatch(r.Header.Get("Authorization")); m != nil {
		return m[1]
	}
	return ""
}

// Regional returns the URL of DynamoDB Local for which each of the regions has a new table with this name. All other tables
// are the same in all regions. Any other region answers 503. The tables are deleted when the test ends. Without a server
// Regional skips the test.
func Regional(t testing.TB, table string, regions ...string) string {
	t.Helper()
	client := local(t)
	in := func(region string) string { return table + "." + region }
	for _, region := range regions {
		if _, err := client.CreateTable(t.Context(), records.TableInput(in(region))); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if _, err := client.DeleteTable(context.Background(), &dynamodb.DeleteTableInput{TableName: aws.String(in(region))}); err != nil {
				t.Error(err)
			}
		})
	}
	proxy := httputil.NewSingleHostReverseProxy(storetest.Must(url.Parse(*client.Options().BaseEndpoint)))
	proxy.ErrorHandler = func(w http.ResponseWriter, _ *http.Request, _ error) { w.WriteHeader(http.StatusBadGateway) } // without a log
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		region := RegionOf(r)
		if !slices.Contains(regions, region) {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return // the caller cancelled the call
		}
		body = bytes.ReplaceAll(body, []byte(strconv.Quote(table)), []byte(strconv.Quote(in(region))))
		r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
		proxy.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	return server.URL
}
