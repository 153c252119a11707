package ratelimit

import (
	"regexp"
	"strconv"
	"strings"

	"github.com/aws/aws-cdk-go/awscdk/v2/awslambda"
	"github.com/aws/jsii-runtime-go"

	"github.com/weir-limits/weir/functions/contract"
)

// agentInterval is how often the AppConfig agent polls, in seconds. Functions read from the agent
// every 15 seconds, so a change takes effect within a minute.
const agentInterval = 45

var (
	validAppConfigID = regexp.MustCompile(`^[a-z0-9]{4,7}$`)
	validLayer       = regexp.MustCompile(`^arn:aws[a-z-]*:lambda:[a-z0-9-]+:[0-9]{12}:layer:[A-Za-z0-9_-]+:[0-9]+$`)
)

// appConfig returns the AppConfig ids in RulesFrom. ok is false if RulesFrom has another form;
// checkDeployment reports mistakes.
func (p *LimitsProps) appConfig() (c contract.Configuration, ok bool) {
	name, ok := strings.CutPrefix(p.RulesFrom, contract.RulesAppConfig)
	if !ok {
		return c, false
	}
	c, err := contract.ParseConfiguration(name)
	return c, err == nil
}

func (p *LimitsProps) checkRulesFrom(want func(ok bool, format string, args ...any)) {
	c, ok := p.appConfig()
	if !ok {
		want(p.AppConfigLayer == "", "AppConfigLayer: got %q, want none without RulesFrom %sAPPLICATION/ENVIRONMENT/PROFILE", p.AppConfigLayer, contract.RulesAppConfig)
		return
	}
	for _, id := range []string{c.Application, c.Environment, c.Profile} { // a policy needs ids; it cannot contain names
		want(validAppConfigID.MatchString(id), "RulesFrom: got %q, want the ids of application, environment and profile, such as abc1234; the functions' permissions contain them", id)
	}
	want(validLayer.MatchString(p.AppConfigLayer), "AppConfigLayer: got %q, want the ARN of a version of the AppConfig agent's layer, for this region and architecture; the user guide of AppConfig lists them", p.AppConfigLayer)
	want(!p.inNetwork() || p.Vpc != nil, "RulesFrom: got %q, want table, or a Vpc with an endpoint for AppConfig; the network that the construct creates cannot connect to AppConfig", p.RulesFrom)
}

// addAgent adds the AppConfig agent's layer to f, if the rules are in AppConfig.
func (l *Limits) addAgent(f awslambda.Function) {
	c, ok := l.props.appConfig()
	if !ok {
		return
	}
	if l.agent == nil {
		l.agent = awslambda.LayerVersion_FromLayerVersionArn(l, jsii.String("AppConfigAgent"), jsii.String(l.props.AppConfigLayer))
	}
	f.AddLayers(l.agent)
	setVariables(f, map[string]*string{
		contract.VariableAgentPrefetch: jsii.String(c.Path()),
		contract.VariableAgentInterval: jsii.String(strconv.Itoa(agentInterval)),
	})
}
