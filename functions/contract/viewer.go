package contract

// These are the values of [VariableViewerAddress]: the source of the client's address. ViewerHops precedes a number from 1
// to [MaxViewerHops].
const (
	ViewerSource     = "source"     // the host; the default
	ViewerCloudFront = "cloudfront" // [CloudFrontAddressField]
	ViewerWeir       = "weir"       // [ViewerAddressField]
	ViewerHops       = "hops:"      // an entry of X-Forwarded-For, counted from the right
)

// MaxViewerHops is the largest number after [ViewerHops].
const MaxViewerHops = 16

// These are the values of [VariableDirectRequests]. A request is direct if it has no valid [OriginSecretField], although
// [VariableViewerAddress] is not [ViewerSource].
const (
	DirectSource = "source" // its source address is the address of the client; the default
	DirectRefuse = "refuse" // it is refused
)

// These are header fields of a request from a distribution or a proxy.
const (
	// OriginSecretField proves that a request comes from the distribution.
	OriginSecretField = "Weir-Origin-Secret"
	// ViewerAddressField is the address of the client, without a port. The viewer function of the distribution
	// writes it.
	ViewerAddressField = "Weir-Viewer-Address"
	// CloudFrontAddressField is the address and the port of the client, as address:port. An IPv6 address has no
	// brackets. CloudFront writes it if the origin request policy names it.
	CloudFrontAddressField = "CloudFront-Viewer-Address"
)
