package contract

// These are the properties of the custom resource whose function is [Deploy]. CloudFormation invokes the
// function if one of them changes, in an update and in its rollback.
const (
	// PropertyTable is the name of the records table.
	PropertyTable = "Table"
	// PropertyNamespace is the namespace of the deployment.
	PropertyNamespace = "Namespace"
	// PropertyDocument is the rules document, compressed by gzip, in base64. The property contains the document
	// itself: in a rollback, the code of the function may be of either deployment.
	PropertyDocument = "Document"
)

// PropertyRotation makes the custom resource return the secret that a distribution sends to its origin, instead of
// publishing rules. The only other properties are [PropertyTable] and
// [PropertyNamespace]. Its value is any text. A new text makes
// CloudFormation ask for the secret again, after a rotation.
const PropertyRotation = "Rotation"

// AttributeOriginSecret is the attribute of such a resource: the value of [OriginSecretField]. CloudFormation masks it
// (NoEcho).
const AttributeOriginSecret = "Secret"
