package contract

import "strings"

// These are the environment variables that the infrastructure sets on a function. The type Config of
// package functions/boot documents the meaning and the values of each variable.
const (
	VariableNamespace         = "NAMESPACE"
	VariableStore             = "STORE"
	VariableTable             = "TABLE"
	VariableRedisURL          = "REDIS_URL"
	VariableRedisCluster      = "REDIS_CLUSTER"
	VariableRedisIAMUser      = "REDIS_IAM_USER"
	VariableRedisIAMCache     = "REDIS_IAM_CACHE"
	VariableRecordsTable      = "RECORDS_TABLE"
	VariableRulesFile         = "RULES_FILE"
	VariableRulesFrom         = "RULES_FROM"
	VariableRulesVersion      = "RULES_VERSION"
	VariableMaxDelay          = "MAX_DELAY"
	VariableCORSOrigins       = "CORS_ORIGINS"
	VariableRequireCredential = "REQUIRE_CREDENTIAL"
	VariableJWKS              = "JWKS"
	VariableJWTIssuer         = "JWT_ISSUER"
	VariableJWTAudience       = "JWT_AUDIENCE"
	VariableEvents            = "EVENTS"
	VariableEventsSample      = "EVENTS_SAMPLE"
	VariableKafkaBrokers      = "KAFKA_BROKERS"
	VariableKafkaTopic        = "KAFKA_TOPIC"
	VariableKafkaIAM          = "KAFKA_IAM"
	VariableKinesisStream     = "KINESIS_STREAM"
	VariableViewerAddress     = "VIEWER_ADDRESS"
	VariableDirectRequests    = "DIRECT_REQUESTS"
	VariableSignLines         = "SIGN_LINES"
	VariableNoticeBus         = "NOTICE_BUS"
	VariableEdgeDelay         = "EDGE_DELAY"
	VariableEdgeList          = "EDGE_LIST"
	VariableRegions           = "REGIONS"
)

// The infrastructure refers to these variables but does not set them.
const (
	// VariableBasePath lists the paths that custom domains add before every path of the API, separated by commas.
	VariableBasePath = "BASE_PATH"
	// VariableAPIKeyHeader is the header field of API keys: a name, or [NoAPIKeys].
	VariableAPIKeyHeader = "API_KEY_HEADER"
	// VariableForeignAPIKeys decides requests with an API key that is not Weir's: [ForeignKeysIgnored],
	// [ForeignKeysRefused] or [ForeignKeysAccepted].
	VariableForeignAPIKeys = "FOREIGN_API_KEYS"
	// VariableJWTAlgorithms lists the signature algorithms of accepted tokens, separated by commas.
	VariableJWTAlgorithms = "JWT_ALGORITHMS"
	// VariableLocal permits settings that are only for local runs, such as key files.
	VariableLocal = "WEIR_LOCAL"
)

// VariableFunction names a function by its role: [Authorizer], [Handler], [Forward], [SigningKeys] or [Publisher]. No
// function reads it. The local gateway finds the functions of a template by it, because the CDK adds a hash to logical ids.
const VariableFunction = "WEIR_FUNCTION"

// These are the roles of the functions. SigningKeys and Publisher are also the names of their bundles.
// [Bundle] returns the names of the other bundles.
const (
	Authorizer  = "authorizer"
	Handler     = "handler"
	Forward     = "forward"
	SigningKeys = "signingkeys"
	Publisher   = "publisher"
)

// Bundle returns the name of the bundle of an authorizer, a handler, an extension or a forward function: the folder of its main package
// in functions, and of its bootstrap in the bundles. A bundle links only the clients that its
// deployment uses. Every bundle links the DynamoDB client. With redis, it also links the Redis client.
// With events, it links all clients. The function [Forward] sends no events.
func Bundle(role string, redis, events bool) string {
	switch {
	case events && role != Forward:
		return role + "-events"
	case redis:
		return role + "-redis"
	}
	return role
}

// These are the variables of the AppConfig agent, a Lambda extension that runs in a function's
// environment.
const (
	VariableAgentPrefetch = "AWS_APPCONFIG_EXTENSION_PREFETCH_LIST"
	VariableAgentInterval = "AWS_APPCONFIG_EXTENSION_POLL_INTERVAL_SECONDS"
)

// These are the values of [VariableStore].
const (
	StoreDynamoDB = "dynamodb"
	StoreRedis    = "redis"
	// StoreMemory has no counters that other functions use.
	StoreMemory = "memory"
)

// These are the values of [VariableRulesFrom]: the rules that operators publish to the records table, the
// rules that a deployment publishes there, or a prefix before APPLICATION/ENVIRONMENT/PROFILE.
const (
	RulesTable      = "table"
	RulesDeployment = "deployment"
	RulesAppConfig  = "appconfig:"
)

// JWKSRecords is the value of [VariableJWKS] that selects the copy of the issuer's keys in the
// records table.
const JWKSRecords = "records:"

// NoAPIKeys is the value of [VariableAPIKeyHeader] with which API keys identify no caller.
const NoAPIKeys = "none"

// These are the values of [VariableForeignAPIKeys].
const (
	ForeignKeysIgnored  = "ignore"
	ForeignKeysRefused  = "refuse"
	ForeignKeysAccepted = "accept"
)

// These are the values of [VariableEvents].
const (
	EventsKafka   = "kafka"
	EventsKinesis = "kinesis"
)

// MaxEventsSample is the largest value of [VariableEventsSample].
const MaxEventsSample = 1_000_000

// VariableSimilarTiers is the variable with which a person accepts tiers with similar names: the value true. Functions
// do not read it.
const VariableSimilarTiers = "SIMILAR_TIERS"

// Variables returns the variables that the infrastructure sets and package functions/boot reads, in
// no particular order.
func Variables() []string {
	return []string{
		VariableNamespace, VariableStore, VariableTable, VariableRedisURL, VariableRedisCluster,
		VariableRedisIAMUser, VariableRedisIAMCache, VariableRecordsTable, VariableRulesFile,
		VariableRulesFrom, VariableRulesVersion, VariableMaxDelay, VariableCORSOrigins,
		VariableRequireCredential, VariableJWKS, VariableJWTIssuer, VariableJWTAudience, VariableEvents,
		VariableEventsSample, VariableKafkaBrokers, VariableKafkaTopic, VariableKafkaIAM, VariableKinesisStream,
		VariableViewerAddress, VariableDirectRequests,
		VariableSignLines, VariableNoticeBus, VariableEdgeDelay, VariableEdgeList, VariableRegions,
	}
}

// WithoutShare is the suffix of a region in VariableRegions that has no share of limits, because it joins or leaves the
// list.
const WithoutShare = ":0"

// RegionNames returns the names of regions in VariableRegions.
func RegionNames(regions []string) (names []string) {
	for _, region := range regions {
		names = append(names, strings.TrimSuffix(region, WithoutShare))
	}
	return names
}
