package boot

import (
	"context"
	"errors"
	"log/slog"
	"regexp"
	"strings"

	"github.com/weir-limits/weir/functions/contract"
	"github.com/weir-limits/weir/functions/lambdahttp"
)

// Layer returns a function that creates the environment of a function with the layer. Its variables have the names of
// [contract.LayerVariable], also in errors.
func Layer(lookup func(string) (string, bool)) func(context.Context, *slog.Logger) (*lambdahttp.Environment, error) {
	return func(ctx context.Context, logger *slog.Logger) (*lambdahttp.Environment, error) {
		if kind, _ := lookup(contract.VariableInit); kind == "snap-start" {
			return nil, errSnapStart
		}
		read := map[string]bool{}
		_, e, err := open(ctx, func(name string) (string, bool) {
			read[name] = true
			return lookup(layerVariable(name))
		}, logger, Config.Environment)
		if err == nil {
			return e, nil
		}
		return nil, errors.New(regexp.MustCompile(`[A-Z0-9_]+`).ReplaceAllStringFunc(err.Error(), func(word string) string {
			if read[word] {
				return layerVariable(word)
			}
			return word
		}))
	}
}

// errSnapStart is the error of a function with SnapStart. After the snapshot the extension would have no credentials,
// every decision would fail, and on_error could allow all requests.
var errSnapStart = errors.New("SnapStart: the layer does not support it (got on, want off); set SnapStart of the function to None")

func layerVariable(name string) string {
	if strings.HasPrefix(name, "AWS_") {
		return name
	}
	return contract.LayerVariable(name)
}
