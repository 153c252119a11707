package contract

// KeyAttribute is the partition key of both tables, a string.
const KeyAttribute = "pk"

// SigningKeysKey is the partition key of the item that contains the copy of the issuer's keys.
const SigningKeysKey = "signingkeys"

// SubjectKeyKey is the partition key of the item that contains the key of subject hashes.
const SubjectKeyKey = "subjectkey"

// MACKeyKey is the partition key of the item with the key of package functions/mac.
const MACKeyKey = "mackey"

// SecretsKey is the partition key of the item that contains the secret that hashes API keys. APIKeyPrefix precedes
// the hash in the partition key of an API key.
const (
	SecretsKey   = "secrets"
	APIKeyPrefix = "apikey#"
)

// RulesKey is the partition key of the item that contains the rules in force.
const RulesKey = "rules"

// InterventionsKey is the partition key of the item that contains the interventions of operators: blocks and raised limits.
const InterventionsKey = RulesKey + "#interventions"

// RulesKeys returns the patterns of the partition keys of the rules in the records table.
func RulesKeys() []string { return []string{RulesKey, RulesKey + "#*"} }

// DeployedRulesKey returns the partition key of the item that contains the rules of a deployment. Deployments
// can share a records table.
func DeployedRulesKey(namespace string) string { return "deployedrules#" + namespace }

// CacheAccess is the ACL of the cache's user. It permits exactly the commands that a function calls,
// on all keys.
const CacheAccess = "on ~* resetchannels -@all +asking +cluster|slots +eval +evalsha +get +hello +pttl +select +set +time"
