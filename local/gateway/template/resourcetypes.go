package template

import (
	"slices"
	"strings"
)

type declaration struct {
	id, kind   string
	path       string // Resources. and the logical id
	properties map[string]any
}

// inertTypes are the resource types that no request reaches, such as alarms. Their properties are
// not read.
var inertTypes = []string{
	"AWS::ApiGateway::Account",
	"AWS::ApplicationAutoScaling::ScalableTarget",
	"AWS::ApplicationAutoScaling::ScalingPolicy",
	"AWS::CDK::Metadata",
	"AWS::CloudWatch::Alarm",
	"AWS::CloudWatch::AnomalyDetector",
	"AWS::CloudWatch::CompositeAlarm",
	"AWS::CloudWatch::Dashboard",
	"AWS::CloudWatch::InsightRule",
	"AWS::DynamoDB::GlobalTable",
	"AWS::DynamoDB::Table",
	"AWS::ElastiCache::ServerlessCache",
	"AWS::ElastiCache::User",
	"AWS::ElastiCache::UserGroup",
	"AWS::Events::Rule",
	"AWS::KMS::Alias",
	"AWS::KMS::Key",
	"AWS::Kinesis::Stream",
	"AWS::Lambda::EventInvokeConfig", // affects only asynchronous invocations
	"AWS::Logs::LogGroup",
	"AWS::Logs::MetricFilter",
	"AWS::Logs::QueryDefinition",
	"AWS::Logs::ResourcePolicy",
	"AWS::S3::Bucket",
	"AWS::S3::BucketPolicy",
	"AWS::SNS::Subscription",
	"AWS::SNS::Topic",
	"AWS::SNS::TopicPolicy",
	"AWS::SQS::Queue",
	"AWS::SQS::QueuePolicy",
	"AWS::SSM::Parameter",
	"AWS::Scheduler::Schedule",
	"AWS::Scheduler::ScheduleGroup",
	"AWS::SecretsManager::Secret",
	"AWS::WAFv2::LoggingConfiguration",
	"Custom::WeirOriginSecret", // no request comes through a distribution here
	"Custom::WeirRules",        // a local run has the rules of a file
}

// unenforcedTypes are the resource types that can block requests or functions on AWS but not here:
// permissions, networks and web ACLs. Their properties are not read.
var unenforcedTypes = []string{
	"AWS::CloudFront::Distribution",
	"AWS::CloudFront::Function",
	"AWS::CloudFront::KeyValueStore",
	"AWS::EC2::FlowLog",
	"AWS::EC2::NetworkAcl",
	"AWS::EC2::NetworkAclEntry",
	"AWS::EC2::Route",
	"AWS::EC2::RouteTable",
	"AWS::EC2::SecurityGroup",
	"AWS::EC2::SecurityGroupEgress",
	"AWS::EC2::SecurityGroupIngress",
	"AWS::EC2::Subnet",
	"AWS::EC2::SubnetNetworkAclAssociation",
	"AWS::EC2::SubnetRouteTableAssociation",
	"AWS::EC2::VPC",
	"AWS::EC2::VPCEndpoint",
	"AWS::IAM::ManagedPolicy",
	"AWS::IAM::Policy",
	"AWS::IAM::Role",
	"AWS::WAFv2::WebACL",
	"AWS::WAFv2::WebACLAssociation",
	"Custom::VpcRestrictDefaultSG", // created by CDK
}

// activeTypes are the resource types whose properties are read.
var activeTypes = []string{
	"AWS::ApiGateway::Authorizer",
	"AWS::ApiGateway::Deployment",
	"AWS::ApiGateway::GatewayResponse",
	"AWS::ApiGateway::Method",
	"AWS::ApiGateway::Resource",
	"AWS::ApiGateway::RestApi",
	"AWS::ApiGateway::Stage",
	"AWS::ApiGatewayV2::Api",
	"AWS::ApiGatewayV2::Integration",
	"AWS::ApiGatewayV2::Route",
	"AWS::ApiGatewayV2::Stage",
	"AWS::Lambda::Alias",
	"AWS::Lambda::Function",
	"AWS::Lambda::Permission",
	"AWS::Lambda::Version",
	"AWS::Logs::SubscriptionFilter",
}

func isActive(kind string) bool { return slices.Contains(activeTypes, kind) }

func isKnown(kind string) bool {
	return isActive(kind) || slices.Contains(inertTypes, kind) || slices.Contains(unenforcedTypes, kind)
}

func readResources(document map[string]any, p *problems) map[string]declaration {
	all := map[string]declaration{}
	section, _ := document["Resources"].(map[string]any)
	if len(section) == 0 {
		p.add("Resources", "required")
	}
	for id, each := range section {
		attributes := asObject(each)
		res := declaration{id: id, path: "Resources." + id}
		res.kind, _ = attributes["Type"].(string)
		res.properties = asObject(attributes["Properties"])
		if !isKnown(res.kind) {
			p.add(res.path+".Type", "got %s, want a known type; add a type that no request reaches to inertTypes in resourcetypes.go",
				describe(attributes["Type"]))
		}
		if attributes["Condition"] != nil && isActive(res.kind) {
			p.add(res.path+".Condition", "not supported: conditions are not evaluated here")
		}
		all[id] = res
	}
	return all
}

// madeUp returns an invented attribute of a resource that is not active. The value has the right
// form and is the same in each call.
func madeUp(kind, name, attribute string) string {
	service := strings.ToLower(strings.Split(kind, "::")[1])
	switch {
	case strings.HasSuffix(attribute, "Port"):
		return "6379"
	case strings.HasSuffix(attribute, "Address"):
		return strings.ToLower(name) + "." + service + ".invalid" // RFC 6761: never resolves
	case !strings.HasSuffix(strings.ToLower(attribute), "arn"):
		return name + "." + attribute
	}
	switch kind {
	case "AWS::CloudFront::KeyValueStore":
		return "arn:" + partition + ":cloudfront::" + Account + ":key-value-store/" + name
	case "AWS::DynamoDB::Table", "AWS::DynamoDB::GlobalTable":
		name = "table/" + name
	case "AWS::IAM::Role":
		return "arn:" + partition + ":iam::" + Account + ":role/" + name
	case "AWS::Logs::LogGroup":
		name = "log-group:" + name + ":*"
	}
	return arn(service, name)
}
