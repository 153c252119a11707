package main

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/weir-limits/weir/functions/boot"
	"github.com/weir-limits/weir/functions/records"
	"github.com/weir-limits/weir/limiter/dynamostore"
)

// store is what the bootstraps are started with.
type store struct {
	name      string
	variables []string
}

// table is the one on DynamoDB.
const table = "weir-size"

// openStores returns the stores there are, and what closes them.
func openStores(ctx context.Context) ([]store, func(), error) {
	standIn := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked, _ := io.ReadAll(r.Body) // or the connection is not used again
		answer := "{}"
		if bytes.Contains(asked, []byte("subjectkey")) { // without the key a function logs a warning
			answer = `{"Item":{"pk":{"S":"subjectkey"},"key":{"B":"` + base64.StdEncoding.EncodeToString(make([]byte, 32)) + `"}}}`
		}
		w.Header().Set("Content-Type", "application/x-amz-json-1.0")
		_, _ = io.WriteString(w, answer)
	}))
	stores := []store{{"stand-in", variables(standIn.URL)}}
	if endpoint := os.Getenv("DYNAMODB_ENDPOINT"); endpoint != "" {
		if err := makeTable(ctx, endpoint); err != nil {
			standIn.Close()
			return nil, nil, err
		}
		stores = append(stores, store{"DynamoDB Local", variables(endpoint)})
	}
	return stores, standIn.Close, nil
}

// variables are those of a function at Lambda that has tokens and API keys to verify, and
// warms its connection. The credentials come as they do there.
func variables(endpoint string) []string {
	return []string{
		"STORE=dynamodb", "NAMESPACE=size", "TABLE=" + table, "RECORDS_TABLE=" + table, "DYNAMODB_ENDPOINT=" + endpoint, "RULES_VERSION=1",
		"JWKS=https://issuer.example/keys", "JWT_ISSUER=https://issuer.example", "JWT_AUDIENCE=size",
		"AWS_REGION=us-east-1", "AWS_ACCESS_KEY_ID=local", "AWS_SECRET_ACCESS_KEY=local", "AWS_SESSION_TOKEN=local",
	}
}

// makeTable makes the table on DynamoDB Local with the key of subject hashes, unless they are there.
func makeTable(ctx context.Context, endpoint string) error {
	config := boot.Config{Store: "dynamodb", Table: table, DynamoDBEndpoint: endpoint, Local: true}
	client, err := config.DynamoDBClient(ctx)
	if err != nil {
		return err
	}
	_, err = client.CreateTable(ctx, dynamostore.TableInput(table))
	if _, exists := errors.AsType[*types.ResourceInUseException](err); err == nil || exists {
		_, _, err = records.SubjectKey(ctx, client, table)
	}
	if err != nil {
		return config.Explain(err)
	}
	return nil
}
