package contract

// These are the values of [VariableAddress]: the source of the client's address. AddressHops precedes a number from 1 to
// [MaxAddressHops].
const (
	AddressHost       = "host"       // the default
	AddressCloudFront = "cloudfront" // [CloudFrontAddressField]
	AddressHops       = "hops:"      // an entry of X-Forwarded-For, counted from the right
)

// MaxAddressHops is the largest number after [AddressHops].
const MaxAddressHops = 16

// MinOriginSecret is the length of the shortest value of [VariableOriginSecret].
const MinOriginSecret = 32

// These are header fields of a request from a distribution or a proxy.
const (
	// OriginSecretField proves that a request comes from the distribution or the proxy.
	OriginSecretField = "Weir-Origin-Secret"
	// CloudFrontAddressField is the address and the port of the client, as address:port. An IPv6 address has no
	// brackets. The viewer function of the distribution writes it.
	CloudFrontAddressField = "CloudFront-Viewer-Address"
)
