// Command oneread is a function that reads one item of DynamoDB when it starts. Its start time is the
// minimum for a function that calls DynamoDB.
package main

import (
	"context"
	"os"

	"github.com/aws/aws-lambda-go/lambda"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

func main() {
	client := dynamodb.New(dynamodb.Options{
		Region: "us-east-1", BaseEndpoint: aws.String(os.Getenv("DYNAMODB_ENDPOINT")), Retryer: aws.NopRetryer{},
		Credentials: credentials.NewStaticCredentialsProvider("local", "local", ""),
	})
	if _, err := client.GetItem(context.Background(), &dynamodb.GetItemInput{
		TableName: aws.String(os.Getenv("TABLE")), Key: map[string]types.AttributeValue{"k": &types.AttributeValueMemberS{Value: "bench"}},
	}); err != nil {
		panic(err)
	}
	lambda.Start(func() (struct{}, error) { return struct{}{}, nil })
}
