package boot

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"reflect"
	"regexp"
	"slices"
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
		e, err := open(ctx, func(name string) (string, bool) { return lookup(layerVariable(name)) }, logger)
		if err != nil {
			return nil, errors.New(layerNames().ReplaceAllStringFunc(err.Error(), layerVariable))
		}
		return e, nil
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

// layerNames matches the name of each variable of a Config.
func layerNames() *regexp.Regexp {
	var names []string
	for _, field := range reflect.VisibleFields(reflect.TypeFor[Config]()) {
		if tag, ok := field.Tag.Lookup("env"); ok {
			name, _, _ := strings.Cut(tag, ", ")
			names = append(names, name)
		}
	}
	names = slices.AppendSeq(names, maps.Keys(removed))
	// the first alternative that matches wins, so longer names come first
	slices.SortFunc(names, func(a, b string) int { return len(b) - len(a) })
	return regexp.MustCompile(`\b(` + strings.Join(names, "|") + `)\b`)
}
