package servers

// Variables are the environment variables in which programs find the servers of the state.
var Variables = map[string]string{"dynamodb": "DYNAMODB_ENDPOINT", "redis": "REDIS_URL"}
