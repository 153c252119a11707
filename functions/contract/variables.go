package contract

// The environment variables that the infrastructure sets on a function. The Config of
// package functions/boot documents the meaning and the values of each.
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
)

// Variables that the infrastructure does not set, but refers to.
const (
	// VariableBasePath is the path that a custom domain puts before every path of the API.
	VariableBasePath = "BASE_PATH"
	// VariableLocal permits the settings of a local run, such as key files.
	VariableLocal = "WEIR_LOCAL"
)

// VariableFunction names a function by its role: [Authorizer], [Handler] or
// [SigningKeys]. No function reads it. The local gateway finds the functions of a
// template by it.
const VariableFunction = "WEIR_FUNCTION"

// The roles of the functions. Each is also the folder of the function's main package,
// and of its bootstrap in the bundles.
const (
	Authorizer  = "authorizer"
	Handler     = "handler"
	SigningKeys = "signingkeys"
)

// Variables of the AppConfig agent, which runs beside a function as a Lambda extension.
const (
	VariableAgentPrefetch = "AWS_APPCONFIG_EXTENSION_PREFETCH_LIST"
	VariableAgentInterval = "AWS_APPCONFIG_EXTENSION_POLL_INTERVAL_SECONDS"
)

// Values of [VariableStore].
const (
	StoreDynamoDB = "dynamodb"
	StoreRedis    = "redis"
)

// Values of [VariableRulesFrom]: the records table, or this prefix before
// APPLICATION/ENVIRONMENT/PROFILE.
const (
	RulesTable     = "table"
	RulesAppConfig = "appconfig:"
)

// JWKSRecords is the value of [VariableJWKS] for the copy of the issuer's keys in the
// records table.
const JWKSRecords = "records:"

// Values of [VariableEvents].
const (
	EventsKafka   = "kafka"
	EventsKinesis = "kinesis"
)

// MaxEventsSample is the largest value of [VariableEventsSample].
const MaxEventsSample = 1_000_000

// Variables returns the variables that the infrastructure sets and that package
// functions/boot reads, in no particular order.
func Variables() []string {
	return []string{
		VariableNamespace, VariableStore, VariableTable, VariableRedisURL, VariableRedisCluster,
		VariableRedisIAMUser, VariableRedisIAMCache, VariableRecordsTable, VariableRulesFile,
		VariableRulesFrom, VariableRulesVersion, VariableMaxDelay, VariableCORSOrigins,
		VariableRequireCredential, VariableJWKS, VariableJWTIssuer, VariableJWTAudience, VariableEvents,
		VariableEventsSample, VariableKafkaBrokers, VariableKafkaTopic, VariableKafkaIAM, VariableKinesisStream,
	}
}
