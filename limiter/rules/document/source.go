package document

import (
	"slices"
	"strings"

	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/algo"
	"github.com/weir-limits/weir/limiter/meter"
)

// These constants bound the field from.
const (
	maxPrices = 1000
	maxFields = 16
	maxValue  = 128 // bytes of a value that has a price
)

// perJSON begins a place in the JSON body of a request.
const perJSON = "json:"

// readSource reads where the bodies of a request and its answer have its cost, and what a request reserves. It returns no source
// if the API reports the cost and the reserve is a number.
func (d *Document) readSource(o *object, of limiter.Counted) (s *meter.Source, reserve int64) {
	from, reserved := o.member("from"), o.member("reserve")
	source := meter.Source{Paths: &d.paths, Weights: map[string][]int64{meter.OtherValues: {1}}}
	if from != nil {
		s = &source
		if of != limiter.CountCost {
			d.report.at(from, `requires "count": "cost"`)
		}
		d.readFrom(from, s)
	}
	switch {
	case reserved == nil:
	case of == limiter.CountCost && reserved.kind == isObject:
		s = &source
		d.readReserve(reserved, s)
		reserve = s.Largest()
	default:
		reserve, _ = o.whole(reserved, algo.MaxAmount)
	}
	return s, reserve
}

func (d *Document) readReserve(n *node, s *meter.Source) {
	o := n.object(&d.report)
	s.Reserve = d.readPaths(o, o.required("json"))
	s.Default, _ = o.whole(o.required("default"), algo.MaxAmount)
	most := o.required("most")
	s.MostReserve, _ = o.whole(most, algo.MaxAmount)
	if most != nil && s.Default > s.MostReserve {
		d.report.at(most, "got %s, want at least the default, %d", most, s.Default)
	}
	o.done()
}

// readPaths reads a path, or several alternatives.
func (d *Document) readPaths(o *object, n *node) meter.Set {
	text, ok := o.text(n)
	if !ok {
		return 0
	}
	return d.addPaths(n, text)
}

func (d *Document) addPaths(n *node, text string) meter.Set {
	set, err := d.paths.Add(text)
	if err != nil {
		d.report.at(n, "got %q, %s", Shorten(text), err)
	}
	return set
}

func (d *Document) readFrom(n *node, s *meter.Source) {
	o := n.objectLike(&d.report, `{"json": "usage.total_tokens"}`)
	fields, by, prices := o.member("json"), o.member("by"), o.member("prices")
	o.done()
	switch {
	case n.kind != isObject:
	case (fields == nil) == (prices == nil) || (by == nil) != (prices == nil):
		d.report.at(n, `want either "json", or "by" and "prices"`)
	case prices != nil:
		d.readBy(o, by, s)
		d.readPrices(prices, s)
	case fields.kind == isObject:
		d.readWeights(fields, s, meter.OtherValues)
	default:
		s.Fields = []meter.Set{d.readPaths(o, fields)}
	}
}

// readBy reads which value of the request has a price.
func (d *Document) readBy(o *object, n *node, s *meter.Source) {
	text, ok := o.text(n)
	path, inBody := strings.CutPrefix(text, perJSON)
	switch {
	case !ok:
	case inBody && !strings.Contains(path, "|"):
		s.By = d.addPaths(n, path)
	case isParameter(text):
		s.Parameter = text[len(PerPath):]
	default:
		d.report.at(n, `got %s, want json:<path> of the request's body, such as "json:model", or path:<parameter>`, n)
	}
}

func (d *Document) readPrices(n *node, s *meter.Source) {
	o := n.objectLike(&d.report, `{"*": {"usage.total_tokens": 10000}}`)
	if len(n.children) > maxPrices {
		d.report.at(n, "got %d prices, want at most %d", len(n.children), maxPrices)
		return
	}
	o.required(meter.OtherValues)
	for _, m := range n.members() {
		if m.key == "" || len(m.key) > maxValue {
			d.report.at(m, "got a value of %d bytes, want 1 to %d", len(m.key), maxValue)
		}
		d.readWeights(m, s, m.key)
	}
	for value, weights := range s.Weights {
		s.Weights[value] = append(weights, make([]int64, len(s.Fields)-len(weights))...)
	}
}

// readWeights reads the weights of fields for a value of the request.
func (d *Document) readWeights(n *node, s *meter.Source, value string) {
	o := n.objectLike(&d.report, `{"usage.prompt_tokens": 3, "usage.completion_tokens": 15}`)
	if n.kind == isObject && len(n.children) == 0 {
		d.report.at(n, "got an empty object, want a path")
	}
	weights := make([]int64, len(s.Fields), maxFields)
	for _, m := range n.members() {
		weight, _ := o.whole(m, algo.MaxRequests)
		field := d.addPaths(m, m.key)
		i := slices.Index(s.Fields, field)
		if i < 0 {
			i, s.Fields = len(s.Fields), append(s.Fields, field)
		}
		if len(s.Fields) > maxFields {
			d.report.at(n, "got more than %d fields, want at most that", maxFields)
			return
		}
		weights = append(weights, make([]int64, len(s.Fields)-len(weights))...)
		weights[i] = weight
	}
	s.Weights[value] = weights
}
