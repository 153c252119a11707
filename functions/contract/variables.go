package contract

import (
	"strconv"
	"strings"
)

// These are the environment variables that the infrastructure sets on a function. The type Config of
// package functions/boot documents the meaning and the values of each variable.
const (
	VariableNamespace         = "NAMESPACE"
	VariableStore             = "STORE"
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
	VariableIdentity          = "IDENTITY"
	VariableUserClaim         = "USER_CLAIM"
	VariableTierClaim         = "TIER_CLAIM"
	VariableClaims            = "CLAIMS"
	VariableSample            = "DECISION_SAMPLE"
	VariableKafkaBrokers      = "KAFKA_BROKERS"
	VariableKafkaTopic        = "KAFKA_TOPIC"
	VariableKafkaIAM          = "KAFKA_IAM"
	VariableAddress           = "ADDRESS"
	VariableOriginSecret      = "ORIGIN_SECRET"
	VariableSecretBefore      = "ORIGIN_SECRET_BEFORE"
	VariableBackEnd           = "BACK_END"
	VariableRefusal           = "REFUSAL"
	VariableBehindAuthorizer  = "BEHIND_AUTHORIZER"
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

// VariableFunction names a function by its role: [Authorizer], [Handler], [Log], [SigningKeys] or [Publisher]. No
// function reads it. The local gateway finds the functions of a template by it, because the CDK adds a hash to logical ids.
const VariableFunction = "WEIR_FUNCTION"

// These are the roles of the functions. The role of a function is also its bundle: the folder of its main package in
// functions, and of its bootstrap in the bundles. [Deploy] is the bundle of the last two roles.
const (
	Authorizer  = "authorizer"
	Handler     = "handler"
	Log         = "log"
	SigningKeys = "signingkeys"
	Publisher   = "publisher"
)

// Deploy is the bundle of the function that publishes rules and of the one that copies the issuer's keys.
const Deploy = "deploy"

// These are values of [VariableStore].
const (
	// StoreDynamoDB is the URL of a table without its name.
	StoreDynamoDB = "dynamodb://"
	// StoreMemory has no counters that other functions use.
	StoreMemory = "memory:"
)

// These are the values of [VariableRulesFrom]: the rules that operators publish to the records table, or the rules that
// a deployment publishes there.
const (
	RulesTable      = "table"
	RulesDeployment = "deployment"
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

// These are the values of [VariableIdentity].
const (
	IdentityWeir     = "weir"
	IdentityHost     = "host"
	IdentityHostKeys = "host+keys"
)

// These are the values of [VariableBackEnd].
const (
	BackEndWeir    = "weir"
	BackEndForeign = "foreign"
)

// MaxSample is the largest value of [VariableSample].
const MaxSample = 1_000_000

// Variables returns the variables that the infrastructure sets and package functions/boot reads, in
// no particular order. Only the function [Log] has variables of Kafka.
func Variables() []string {
	return []string{
		VariableNamespace, VariableStore, VariableRecordsTable, VariableRulesFile,
		VariableRulesFrom, VariableRulesVersion, VariableMaxDelay, VariableCORSOrigins,
		VariableJWKS, VariableJWTIssuer, VariableJWTAudience, VariableIdentity,
		VariableUserClaim, VariableTierClaim, VariableClaims, VariableSample,
		VariableAddress, VariableOriginSecret, VariableSecretBefore,
		VariableBackEnd, VariableBehindAuthorizer, VariableRegions,
	}
}

// WithoutShare is the suffix of a region in VariableRegions that has no share of limits, because it joins or leaves the
// list.
const WithoutShare = ":0"

// RegionNames returns the names of regions in VariableRegions, without the number of the list.
func RegionNames(regions []string) (names []string) {
	for _, region := range regions {
		names = append(names, strings.TrimSuffix(region, WithoutShare))
	}
	if len(names) > 0 {
		_, names[0] = ListNumber(names[0])
	}
	return names
}

// ListNumber returns the number of a list of regions, which grows with each change of the list, and the name after it:
// "2:eu-central-1" is the first region of the list 2. A list without a number has 0.
func ListNumber(first string) (n int64, name string) {
	number, name, ok := strings.Cut(first, ":")
	n, err := strconv.ParseInt(number, 10, 32)
	if !ok || err != nil || n < 1 {
		return 0, first
	}
	return n, name
}

// IsName reports whether s has only letters, digits, _, . and -, and a length from the minimum least to the
// maximum most. It replaces a regular expression, which would make the start of a function slower.
func IsName(s string, least, most int) bool {
	return len(s) >= least && len(s) <= most && !strings.ContainsFunc(s, func(r rune) bool { return !isNameRune(r) })
}

func isNameRune(r rune) bool {
	return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '_' || r == '.' || r == '-'
}
