package boot

import "github.com/aws/aws-sdk-go-v2/service/dynamodb"

// Share makes client the one that the store and the records share. Call it before any of
// them is made.
func (c Config) Share(client *dynamodb.Client) {
	c.dynamo.once.Do(func() { c.dynamo.client = client })
}
