package servers

// Variables has the environment variable that holds the address of a store, by the store's name.
var Variables = map[string]string{"dynamodb": "DYNAMODB_ENDPOINT", "redis": "REDIS_URL"}
