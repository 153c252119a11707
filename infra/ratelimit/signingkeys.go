package ratelimit

import (
	"time"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsevents"
	"github.com/aws/aws-cdk-go/awscdk/v2/awseventstargets"
	"github.com/aws/aws-cdk-go/awscdk/v2/awslambda"
	"github.com/aws/jsii-runtime-go"

	"github.com/weir-limits/weir/functions/contract"
)

// signingKeysEvery is the interval between fetches of the issuer's keys. A new key is known within
// this time. After the first deployment, tokens cannot be verified for up to this time.
const signingKeysEvery = 5 * time.Minute

// newSigningKeys creates the function that copies the issuer's keys into the records table, where
// functions in the VPC read them. It runs outside the VPC, and can write only the item with these
// keys.
func (l *Limits) newSigningKeys() {
	f := l.newFunction("SigningKeys", FunctionProps{
		Bundle: l.Bundle(contract.Deploy), Role: contract.SigningKeys, Timeout: authorizerTimeout,
	}, nil)
	setVariables(f, map[string]*string{contract.VariableJWKS: jsii.String(l.props.Tokens.JWKS),
		contract.VariableRecordsTable: l.records.TableName()})
	permit(f, l.record(contract.CreateActions(), contract.SigningKeysKey))
	l.NewAlarm(l, Alarm{"signing-keys", "Three fetches of the issuer's keys in a row failed. Look at the log of the function SigningKeys. " +
		"The keys of the last fetch stay valid, and tokens signed with newer ones get 401.", LambdaMetric(f, "Errors", "Sum"), 0, 3, 20})
	// A failed fetch is not retried, because the next one is scheduled soon. Lambda would retry
	// twice, and the alarm would count each retry.
	f.ConfigureAsyncInvoke(&awslambda.EventInvokeConfigOptions{RetryAttempts: jsii.Number(0)})
	awsevents.NewRule(l, jsii.String("SigningKeysSchedule"), &awsevents.RuleProps{
		Description: jsii.String("Fetches the keys that the issuer signs with"),
		Schedule:    awsevents.Schedule_Rate(awscdk.Duration_Minutes(jsii.Number(signingKeysEvery.Minutes()))),
		Targets:     &[]awsevents.IRuleTarget{awseventstargets.NewLambdaFunction(f, nil)},
	})
}
