package contract

import "strings"

// Extension is the bundle of the layer's extension.
const Extension = "extension"

// These are the files of the layer, relative to [LayerRoot]. The extension is the bootstrap of a bundle of
// the role [Extension].
const (
	LayerExtension = "extensions/weir"
	LayerWrapper   = "weir" // [LayerScript]
	LayerRules     = "weir-rules.json"
)

// LayerRoot is the folder in which Lambda unpacks layers.
const LayerRoot = "/opt/"

// VariableWrapper is the variable of Lambda that names a wrapper script. Lambda starts the runtime with this
// script. A function with the layer has the value [LayerRoot] + [LayerWrapper].
const VariableWrapper = "AWS_LAMBDA_EXEC_WRAPPER"

// VariableRuntimeAPI is the variable of Lambda with the address of the Runtime API.
const VariableRuntimeAPI = "AWS_LAMBDA_RUNTIME_API"

// VariableInit is the variable of Lambda with the kind of the init. Its value is ManagedInstances in an environment
// that handles several events at once.
const (
	VariableInit     = "AWS_LAMBDA_INITIALIZATION_TYPE"
	ManagedInstances = "lambda-managed-instances"
)

// LayerHost is the address at which the extension listens. The extension uses the port of the Runtime API, so that
// environments on one machine do not collide.
const LayerHost = "127.0.0.2"

// LayerAddress is the file, in the folder /tmp, by which the extension and [LayerScript] exchange addresses. Its
// first line is the address of the extension. The script appends the address that it replaces: the address of Lambda,
// or of another proxy of the Runtime API whose script ran before.
const LayerAddress = "weir-runtime-api"

// VariableLayerFolder is the variable that replaces /tmp as the folder of [LayerAddress], for several environments on one
// machine. TMPDIR is not suitable: it belongs to the function, and its folder may not exist, or may be shared by
// environments.
const VariableLayerFolder = "WEIR_LAYER_FOLDER"

// LayerScript returns the wrapper script. It starts the runtime with the extension as its Runtime API. If the
// function has an HTTP proxy, it adds [LayerHost] to the addresses without a proxy. Otherwise the runtime for .NET
// would call it through the proxy. It does not change the list "*", which contains every address.
func LayerScript() string {
	return "#!/bin/sh\n" +
		"# Starts the runtime with the extension of Weir as its Runtime API.\n" +
		"weir_file=${" + VariableLayerFolder + ":-/tmp}/" + LayerAddress + "\n" +
		"read -r weir_address <\"$weir_file\" || exit 1\n" +
		"echo \"$" + VariableRuntimeAPI + "\" >>\"$weir_file\"\n" +
		"export " + VariableRuntimeAPI + "=\"$weir_address\"\n" +
		`if [ -n "$http_proxy$HTTP_PROXY$all_proxy$ALL_PROXY" ]; then
	no_proxy=${no_proxy:-$NO_PROXY}
	NO_PROXY=${NO_PROXY:-$no_proxy}
	[ "$no_proxy" = "*" ] || no_proxy=${no_proxy:+$no_proxy,}` + LayerHost + `
	[ "$NO_PROXY" = "*" ] || NO_PROXY=${NO_PROXY:+$NO_PROXY,}` + LayerHost + `
	export no_proxy NO_PROXY
fi
` +
		"exec \"$@\"\n"
}

// LayerVariable returns the name of a variable of package functions/boot in a function with the layer. The
// function has variables of its own, such as STORE, so the variables of the layer have a prefix.
func LayerVariable(name string) string {
	const prefix = "WEIR_"
	return prefix + strings.TrimPrefix(name, prefix)
}

// Archive returns the name of a bundle's zip file in a release, such as handler_arm64.zip, or layer-arm64.zip
// for an extension.
func Archive(bundle, architecture string) string {
	if bundle == Extension {
		return "layer-" + architecture + ".zip"
	}
	return bundle + "_" + architecture + ".zip"
}
