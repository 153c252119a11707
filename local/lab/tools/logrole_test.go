package main

import (
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/apigateway"
	"github.com/aws/aws-sdk-go-v2/service/apigateway/types"

	"github.com/weir-limits/weir/local/verify/account/accounttest"
)

// A deployment creates the role for API Gateway's logs only if the account has none.
func TestLogRole(t *testing.T) {
	cloud := accounttest.Start(t)
	for name, value := range cloud.Environment() {
		t.Setenv(name, value)
	}
	if code, out, errs := tool(t, "log-role"); code != 0 || out != "-c logRole=true\n" {
		t.Errorf("no role: got exit %d, %q and %q, want the setting", code, out, errs)
	}
	if _, err := apigateway.NewFromConfig(cloud.Config()).UpdateAccount(t.Context(), &apigateway.UpdateAccountInput{PatchOperations: []types.PatchOperation{
		{Op: types.OpReplace, Path: aws.String("/cloudwatchRoleArn"), Value: aws.String("arn:aws:iam::123456789012:role/logs")},
	}}); err != nil {
		t.Fatal(err)
	}
	if code, out, errs := tool(t, "log-role"); code != 0 || out != "" {
		t.Errorf("a role: got exit %d, %q and %q, want no setting", code, out, errs)
	}
	cloud.Deny("GET /account")
	if code, out, _ := tool(t, "log-role"); code != 1 || out != "" {
		t.Errorf("denied: got exit %d and %q, want a failure", code, out)
	}
}
