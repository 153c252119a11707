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
