package e2e

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
)

// After an interrupt, CloudFormation creates a table before it begins to delete the stack. The table is named although
// its name is unknown.
func TestRemover_remove_creating(t *testing.T) {
	const template = `{"Resources":{"Records":{"Type":"AWS::DynamoDB::Table","DeletionPolicy":"Retain"}}}`
	described := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		result := ""
		switch action := r.FormValue("Action"); action {
		case "DescribeStacks":
			if described++; described > 1 {
				w.WriteHeader(http.StatusBadRequest)
				fmt.Fprint(w, "<ErrorResponse><Error><Code>ValidationError</Code><Message>the stack does not exist</Message></Error></ErrorResponse>")
				return
			}
			result = "<Stacks><member><StackName>s</StackName><StackStatus>DELETE_IN_PROGRESS</StackStatus></member></Stacks>"
		case "GetTemplate":
			result = "<TemplateBody>" + strings.ReplaceAll(template, `"`, "&quot;") + "</TemplateBody>"
		case "ListStackResources":
			result = "<StackResourceSummaries><member><LogicalResourceId>Records</LogicalResourceId><ResourceType>AWS::DynamoDB::Table</ResourceType><ResourceStatus>CREATE_IN_PROGRESS</ResourceStatus></member></StackResourceSummaries>"
		}
		fmt.Fprintf(w, "<%[1]sResponse><%[1]sResult>%[2]s</%[1]sResult></%[1]sResponse>", r.FormValue("Action"), result)
	}))
	t.Cleanup(server.Close)
	r := remover{Runner: &Runner{Config: aws.Config{Region: "us-east-1", BaseEndpoint: &server.URL, RetryMaxAttempts: 1, Credentials: credentials.NewStaticCredentialsProvider("AKIAEXAMPLE", "secret", "")}}}
	r.remove(t.Context(), "s")
	if len(r.left) != 1 || !strings.Contains(r.left[0], "AWS::DynamoDB::Table Records") || !strings.Contains(r.left[0], "aws dynamodb list-tables --region us-east-1") {
		t.Errorf("left: got %q, want the table and the command that finds it", r.left)
	}
}
