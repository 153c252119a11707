package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// make finds mistakes in CONTEXT and in stages.json before it builds the functions.
func TestCheck(t *testing.T) {
	for settings, want := range map[string]string{
		"arch=arm64 stage=prod basePath=/v1,/orders/v2": "", "arch=arm64 stag=prod": "-c stag=prod: want a setting: ",
		"arch=arm64 throttle=0": "-c throttle=0: want a whole number of at least 1",
		"arch=arm64 store=etcd": "-c store=etcd: want dynamodb or elasticache",
	} {
		if _, err := check(strings.Fields(settings)); (err == nil) != (want == "") || err != nil && !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s: got error %v, want %s", settings, err, want)
		}
	}
}

// make deploy asks the account for its role for logs, and in the first region for the regions of the deployed stack, or for a
// records table without one.
func TestAccount(t *testing.T) {
	const (
		list    = "stage=prod regions=2:eu-central-1,us-east-1"
		role    = `{"cloudwatchRoleArn": "arn:aws:iam::123456789012:role/logs"}`
		none    = "An error occurred (ValidationError) when calling the DescribeStacks operation: Stack with id Weir-prod does not exist"
		noTable = "An error occurred (ResourceNotFoundException) when calling the DescribeTable operation: Requested resource not found"
		failed  = `{"Stacks": [{"StackStatus": "ROLLBACK_COMPLETE"}]}`
		table   = `{"Table": {"Replicas": [{"RegionName": "us-east-1"}]}}`
		inOne   = `{"Stacks": [{"Outputs": [{"OutputKey": "RestUrl", "OutputValue": "https://a.example"}]}]}`
		inTwo   = `{"Stacks": [{"Outputs": [{"OutputKey": "Regions", "OutputValue": "1:eu-central-1,us-east-1:0"}]}]}`
	)
	for _, c := range []struct{ given, role, stack, table, want string }{
		{"stage=prod", "{}", none, "", "-c logRole=true -c deployed=none"},
		{"stage=prod", role, inOne, "", ""},
		{"stage=prod", role, inTwo, "", "-c deployed=1:eu-central-1,us-east-1:0"},
		{list, role, inTwo, "", "-c deployed=1:eu-central-1,us-east-1:0"},
		{list, role, inOne, "", "-c deployed=eu-central-1"},
		{list, role, none, noTable, "-c deployed=none"},
		{list, role, failed, table, "error: the records table weir-prod-records is in eu-central-1, with replicas in [{us-east-1}], but its " +
			"stack is not: a deployment failed, or was destroyed; set recordsTable=weir-prod-records to use it, or delete it"},
		{list + " recordsTable=weir-prod-records", role, failed, table, "-c deployed=none"},
		{list + " logRole=false", "", inTwo, "", "-c deployed=1:eu-central-1,us-east-1:0"},
		{"stage=prod logRole=false deployed=none", "", "", "", ""},
		{"stage=prod", "AccessDeniedException: no", "", "", "error: aws apigateway get-account: exit status 1: AccessDeniedException: no"},
		{list, role, "AccessDenied: no", "", "error: aws cloudformation describe-stacks --stack-name Weir-prod"},
	} {
		folder := t.TempDir()
		for name, answer := range map[string]string{"apigateway": c.role, "cloudformation": c.stack, "dynamodb": c.table,
			"aws": "#!/bin/sh\ncase \"$*\" in *prod*eu-central-1|*prod*json|apigateway*) ;; *) echo \"got $*\" >&2; exit 2;; esac\n" +
				"answer=$(cat " + folder + "/$1)\ncase \"$answer\" in {*) echo \"$answer\";; *) echo \"$answer\" >&2; exit 1;; esac\n"} {
			if err := os.WriteFile(filepath.Join(folder, name), []byte(answer), 0o700); err != nil {
				t.Fatal(err)
			}
		}
		t.Setenv("PATH", folder+":/usr/bin:/bin")
		got, err := account(t.Context(), strings.Fields(c.given))
		if err != nil {
			got = "error: " + err.Error()
		}
		got = strings.TrimSpace(got)
		if got != c.want && (err == nil || !strings.HasPrefix(got, c.want)) {
			t.Errorf("%+v: got %q", c, got)
		}
	}
	t.Setenv("PATH", t.TempDir())
	if _, err := account(t.Context(), nil); err == nil || !strings.HasPrefix(err.Error(), "aws: not found; install") {
		t.Errorf("without the AWS CLI: got error %v, want one that names it", err)
	}
}
