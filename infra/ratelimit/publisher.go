package ratelimit

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"fmt"
	"time"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awslambda"
	"github.com/aws/constructs-go/constructs/v10"
	"github.com/aws/jsii-runtime-go"

	"github.com/weir-limits/weir/functions/contract"
)

const (
	// publisherTimeout is the timeout of the function Publisher, in which it waits for its permissions.
	publisherTimeout = time.Minute
	// publishWithin is how long CloudFormation waits for a publication. A later event must not publish, because
	// the rollback has published the previous document by then.
	publishWithin = 5 * time.Minute
)

// maxDeployed is the maximum length of the document in the template. CloudFormation sends the new and the
// previous document in one asynchronous event, which Lambda limits to 256 KB.
const maxDeployed = 100 << 10

// deployed reports whether the deployment publishes the rules.
func (p *LimitsProps) deployed() bool { return p.RulesFrom == "" }

// newPublisher creates the custom resource that publishes the rules with the function Publisher. The
// resource contains the document. So CloudFormation invokes the function whenever the document changes:
// in a deployment, and in the rollback of a deployment that changed it. If Lambda repeats an event, the
// function only answers again.
//
// The resource is beside the construct, not in it. So functions that depend on the limits do not depend on the
// resource, which depends on them.
func (l *Limits) newPublisher(scope constructs.Construct) {
	if !l.props.deployed() || !l.publishes() {
		return
	}
	within := awscdk.Duration_Seconds(jsii.Number(publishWithin.Seconds()))
	f := l.newFunction("Publisher", FunctionProps{Bundle: l.Bundle(contract.Deploy), Role: contract.Publisher, Timeout: publisherTimeout}, nil)
	f.ConfigureAsyncInvoke(&awslambda.EventInvokeConfigOptions{MaxEventAge: within})
	permit(f, l.record(contract.CreateActions(), contract.DeployedRulesKey(l.props.Namespace)))
	l.published = awscdk.NewCustomResource(scope, jsii.String(*l.Node().Id()+"Rules"), &awscdk.CustomResourceProps{
		ServiceToken: f.FunctionArn(), ResourceType: jsii.String("Custom::WeirRules"), ServiceTimeout: within, Properties: &map[string]any{
			contract.PropertyTable: l.records.TableName(), contract.PropertyNamespace: l.props.Namespace,
			contract.PropertyDocument: l.props.packed(),
		},
	})
	l.publishAfter(l.authorizer)
}

// publishAfter delays the publication until f has its new code: new code reads old documents, but old code may reject
// a new one. The construct of f contains its versions and aliases. A function in another stack is no dependency,
// because its stack depends on this one.
func (l *Limits) publishAfter(f awslambda.IFunction) {
	if l.published != nil && *awscdk.Stack_Of(f).Node().Path() == *awscdk.Stack_Of(l).Node().Path() {
		l.published.Node().AddDependency(f)
	}
}

// packed returns the rules as contract.PropertyDocument. It panics if they are too large.
func (p *LimitsProps) packed() string {
	var b bytes.Buffer
	w, _ := gzip.NewWriterLevel(&b, gzip.BestCompression) // NewWriterLevel fails only for an invalid level
	_, _ = w.Write(p.document)                            // a Buffer never returns an error
	_ = w.Close()
	packed := base64.StdEncoding.EncodeToString(b.Bytes())
	if len(packed) > maxDeployed {
		panic(fmt.Errorf("ratelimit: Rules: %s: got %d bytes after compression, want at most %d in a template; set RulesFrom to %s, and "+
			"publish the rules with `weir rules publish`", p.Rules, len(packed), maxDeployed, contract.RulesTable))
	}
	return packed
}
