package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/aws/smithy-go"
	"github.com/aymanbagabas/go-udiff"
	"github.com/spf13/cobra"

	"github.com/weir-limits/weir/functions/contract"
	"github.com/weir-limits/weir/functions/rulestore"
	"github.com/weir-limits/weir/limiter/dynamostore"
	"github.com/weir-limits/weir/limiter/rules"
	"github.com/weir-limits/weir/local/command"
)

type rulesOptions struct {
	table     string
	namespace string
	json      bool
	maxDelay  time.Duration

	restartCounts bool // publish even if counts restart
	unlimited     bool // publish even if no limit is left
	fromTable     bool // publish even if the deployment published rules
}

func (o *rulesOptions) open(ctx context.Context) (*rulestore.Versions, error) {
	client, err := openRecords(ctx, o.table)
	if err != nil {
		return nil, err
	}
	return rulestore.New(client, o.table), nil
}

// checkSource returns an error if the functions of the namespace read the rules that their deployment published, and
// not the rules of kept. It warns if it cannot know this.
func (o *rulesOptions) checkSource(ctx context.Context, errs io.Writer, kept *rulestore.Versions) error {
	if o.fromTable {
		return nil
	}
	var err error
	if o.namespace != "" {
		var v rulestore.Version
		v, _, err = kept.Deployed(ctx, o.namespace)
		if err == nil {
			return fmt.Errorf("nothing was published: functions of namespace %s use the rules of their deployment (version %d, rules get "+
				"--deployed), and not published ones; "+
				"change the document and deploy, or deploy with rulesFrom=table and add --rules-from-table", o.namespace, v.Version)
		} else if errors.Is(err, rulestore.ErrNoRules) {
			return nil
		}
	}
	denied, _ := errors.AsType[smithy.APIError](err)
	if err != nil && (denied == nil || denied.ErrorCode() != "AccessDeniedException") {
		return o.explain(err)
	}
	reason := "--namespace is not given (or set NAMESPACE)"
	if err != nil {
		reason = "dynamodb:GetItem on the item " + contract.DeployedRulesKey(o.namespace) + " is denied"
	}
	_, err = fmt.Fprintf(errs, "warning: only functions deployed with rulesFrom=table use published rules; the command cannot check this: "+
		"%s; --rules-from-table omits the check\n", reason)
	return err
}

// explain adds a remedy to an error of the table.
func (o *rulesOptions) explain(err error) error {
	if errors.Is(err, rulestore.ErrConflict) {
		return fmt.Errorf("%w; see weir rules history and try again", err)
	}
	return explainRecords(o.table, err)
}

type proposal struct {
	name     string
	document []byte
}

// check parses the document and checks it for every kind of store.
func (p proposal) check(maxDelay time.Duration) (r *rules.Rules, err error) {
	for _, leaseAbove := range []int64{rules.LeaseAboveDynamoDB, 0} {
		r, err = rules.Parse(p.document, rules.Options{LeaseAbove: leaseAbove, MaxDelay: maxDelay, Items: dynamostore.Items{}, OneRegion: true,
			Now: time.Now()})
		if err != nil {
			return nil, err
		}
	}
	return r, nil
}

// restarts returns the limits whose counts would restart if the proposal replaced document. r is
// the parsed proposal. If this version of weir cannot parse document, restarts returns only
// everyCount.
func (p proposal) restarts(document []byte, r *rules.Rules, maxDelay time.Duration) []string {
	if len(document) == 0 { // nothing was published before
		return nil
	}
	before, err := proposal{document: document}.check(maxDelay)
	if err != nil {
		return []string{everyCount}
	}
	moved, _ := rules.Moved(before, r)
	return moved
}

// reshapes returns the form of refusals in the proposal, if document has another one. r is the parsed proposal.
func (p proposal) reshapes(document []byte, r *rules.Rules, maxDelay time.Duration) string {
	before, err := proposal{document: document}.check(maxDelay)
	if err != nil || before.Refusal() == r.Refusal() {
		return ""
	}
	return r.Refusal()
}

// unlimits returns an error if the proposal removes all limits: it enforces none, unlike document, which is in force. r
// is the parsed proposal.
func (p proposal) unlimits(document []byte, r *rules.Rules, maxDelay time.Duration) error {
	if r.Enforces() {
		return nil
	}
	if before, err := (proposal{document: document}).check(maxDelay); err == nil && !before.Enforces() {
		return nil
	}
	reason := "no rule refuses a request"
	if r.Len() == 0 {
		reason = "the document has no rules"
	}
	return fmt.Errorf("%s: nothing was published, because %s; callers would have no limit; to accept this, add --unlimited", p.name, reason)
}

// published is the result of a publish. --json prints it.
type published struct {
	rulestore.Version
	Replaces int64    `json:"replaces,omitempty"` // the version that was in force before
	Restarts []string `json:"restarts,omitempty"` // limits whose counts restart
	Refusal  string   `json:"refusal,omitempty"`  // the form of refusals, if it changes
	Diff     string   `json:"diff"`               // unified diff; empty if the document was in force before
}

// publish publishes a proposal.
func (o *rulesOptions) publish(c *cobra.Command, p proposal, note string) error {
	ctx, out := c.Context(), c.OutOrStdout()
	r, err := p.check(o.maxDelay)
	if problems, mistaken := errors.AsType[rules.Problems](err); mistaken {
		return errors.Join(checked{File: p.name, Problems: problems}.print(out, o.json), command.ExitError{Code: 1})
	}
	kept, err := o.open(ctx)
	if err != nil {
		return err
	}
	if err := o.checkSource(ctx, c.ErrOrStderr(), kept); err != nil {
		return err
	}
	before, document, err := kept.Get(ctx, 0)
	if err != nil && !errors.Is(err, rulestore.ErrNoRules) {
		return o.explain(err)
	}
	result := published{Version: before, Diff: difference(before, document, p)}
	if result.Diff == "" {
		return o.printPublished(out, result)
	}
	if err := p.unlimits(document, r, o.maxDelay); err != nil && !o.unlimited {
		return err
	}
	result.Restarts = p.restarts(document, r, o.maxDelay)
	if len(result.Restarts) > 0 && !o.restartCounts {
		return fmt.Errorf("%s; callers would get the full quota of these limits again; to accept this, add --restart-counts",
			restartText(result.Restarts))
	}
	result.Refusal = p.reshapes(document, r, o.maxDelay)
	result.Version, err = kept.Publish(ctx, time.Now(), p.document, note, before.Version, r.Version())
	if err != nil {
		return o.explain(err)
	}
	result.Replaces = before.Version
	return o.printPublished(out, result)
}

func (o *rulesOptions) printPublished(out io.Writer, r published) error {
	var err error
	switch {
	case o.json:
		return command.PrintJSON(out, r)
	case r.Diff == "":
		_, err = fmt.Fprintf(out, "nothing was published: %s, which is in force, has the same document\n",
			command.RulesVersion(r.Version.Version))
	default:
		text := r.Diff
		if len(r.Restarts) > 0 {
			text += restartText(r.Restarts) + "\n"
		}
		if r.Refusal != "" {
			text += "refusals get the form " + r.Refusal + "; those of a REST API keep theirs until its next deployment with this document\n"
		}
		_, err = fmt.Fprintf(out, "%spublished %s; functions with rulesFrom=table use it within a minute\n", text,
			command.RulesVersion(r.Version.Version))
	}
	return err
}

// difference returns a unified diff from a version to the proposal, or "" if they are equal.
func difference(v rulestore.Version, document []byte, p proposal) string {
	return udiff.Unified(nameOf(v), p.name, lines(document), lines(p.document))
}

// nameOf returns "version N" or, for the zero Version, "no rules".
func nameOf(v rulestore.Version) string {
	if v.Version == 0 {
		return "no rules"
	}
	return fmt.Sprintf("version %d", v.Version)
}

// lines formats a JSON document with one value per line, for a diff.
func lines(document []byte) string {
	var b bytes.Buffer
	if json.Compact(&b, document) != nil {
		return string(document)
	}
	compact := bytes.Clone(b.Bytes())
	b.Reset()
	_ = json.Indent(&b, compact, "", "  ") // compact is valid JSON, so Indent cannot fail
	return b.String() + "\n"
}

func (o *rulesOptions) get(ctx context.Context, out io.Writer, version int64, deployed bool) error {
	kept, err := o.open(ctx)
	if err != nil {
		return err
	}
	v, document, err := kept.Get(ctx, version)
	if deployed {
		v, document, err = kept.Deployed(ctx, o.namespace)
	}
	switch {
	case deployed && errors.Is(err, rulestore.ErrNoRules):
		return fmt.Errorf("--deployed: no rules of a deployment of namespace %s in table %s; want a deployment without rulesFrom", o.namespace,
			o.table)
	case err != nil:
		return o.explain(err)
	case o.json:
		return command.PrintJSON(out, struct {
			rulestore.Version
			Document json.RawMessage `json:"document"`
		}{v, document})
	}
	_, err = out.Write(document)
	return err
}

func (o *rulesOptions) history(ctx context.Context, out io.Writer) error {
	kept, err := o.open(ctx)
	if err != nil {
		return err
	}
	all, err := kept.History(ctx)
	switch {
	case err != nil:
		return o.explain(err)
	case o.json:
		return command.PrintJSON(out, all)
	case len(all) == 0:
		_, err = fmt.Fprintf(out, "no rules in %s; publish them with weir rules publish FILE\n", o.table)
		return err
	}
	t := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "VERSION\tPUT\tBYTES\tNOTE")
	for _, v := range all {
		fmt.Fprintf(t, "%d\t%s\t%d\t%s\n", v.Version, v.Published.UTC().Format(time.RFC3339), v.Bytes, v.Note)
	}
	return t.Flush()
}
