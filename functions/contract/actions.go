package contract

// RecordActions returns the IAM actions that a function needs on the records table to identify
// callers and to read rules, with the keys of the items that it reads as the only leading keys.
func RecordActions() []string { return []string{"dynamodb:GetItem"} }

// CreateActions returns the IAM actions that a function needs on the records table to write one item, with its key as the only
// leading key: [Deploy] for [SigningKeysKey] or [DeployedRulesKey], and in addition to [RecordActions] each function for
// [SubjectKeyKey], and one that makes MACs for [MACKeyKey]. The first function that starts creates a key.
func CreateActions() []string { return []string{"dynamodb:PutItem"} }

// RulesActions returns the IAM actions that a publisher of rules needs on the records
// table, with [RulesKeys] as the only leading keys. It also needs [RecordActions] with [DeployedRulesKey].
func RulesActions() []string {
	return []string{"dynamodb:DeleteItem", "dynamodb:GetItem", "dynamodb:PutItem"}
}

// KeyActions returns the IAM actions that an administrator of API keys needs on the
// records table.
func KeyActions() []string {
	return []string{"dynamodb:DeleteItem", "dynamodb:GetItem", "dynamodb:PutItem", "dynamodb:Scan"}
}

// CacheActions returns the IAM actions that a function needs on the cache and on its cache user.
func CacheActions() []string { return []string{"elasticache:Connect"} }

// KafkaClusterActions returns the IAM actions that the function [Log] needs on an Amazon MSK cluster.
func KafkaClusterActions() []string { return []string{"kafka-cluster:Connect"} }

// KafkaTopicActions returns the IAM actions that the function [Log] needs on the topic.
func KafkaTopicActions() []string {
	return []string{"kafka-cluster:DescribeTopic", "kafka-cluster:WriteData"}
}
