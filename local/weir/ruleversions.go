package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
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
	deployed

	maxDelay      time.Duration
	restartCounts bool // publish even if counts restart
	unlimited     bool // publish even if no limit is left
}

// checkSource returns an error if the functions of the namespace read the rules that their deployment published, and
// not the rules of kept. It warns if it cannot know this.
func (o *rulesOptions) checkSource(c *cobra.Command, kept *rulestore.Versions) error {
	v, _, err := o.own(c.Context(), kept)
	if err == nil {
		return fmt.Errorf("nothing was published: functions of namespace %s use the rules of their deployment (version %d, rules get "+
			"--deployed), and not published ones; "+
			"change the document and deploy, or deploy with rulesFrom=table and set RULES_FROM=table", o.namespace, v.Version)
	}
	reason := "--namespace is not given (or set NAMESPACE)"
	if denied, _ := errors.AsType[smithy.APIError](err); denied != nil && denied.ErrorCode() == "AccessDeniedException" {
		reason = "dynamodb:GetItem on the item " + contract.DeployedRulesKey(o.namespace) + " is denied"
	} else if !errors.Is(err, rulestore.ErrNoRules) {
		return o.explain(err)
	} else if o.namespace != "" || rulesFrom() == contract.RulesTable {
		return nil
	}
	_, err = fmt.Fprintf(c.ErrOrStderr(), "warning: only functions deployed with rulesFrom=table use published rules; the command cannot "+
		"check this: %s; RULES_FROM=table omits the check\n", reason)
	return err
}

// check parses a document and checks it for every kind of store.
func (o *rulesOptions) check(document []byte) (r *rules.Rules, err error) {
	for _, leaseAbove := range []int64{rules.LeaseAboveDynamoDB, 0} {
		r, err = rules.Parse(document, rules.Options{LeaseAbove: leaseAbove, MaxDelay: o.maxDelay, Items: dynamostore.Items{}, OneRegion: true,
			Now: time.Now()})
		if err != nil {
			return nil, err
		}
	}
	return r, nil
}

// published is the result of a publish. --json prints it.
type published struct {
	rulestore.Version
	Replaces int64    `json:"replaces,omitempty"` // the version that was in force before
	Restarts []string `json:"restarts,omitempty"` // limits whose counts restart
	Refusal  string   `json:"refusal,omitempty"`  // the form of refusals, if it changes
	Diff     string   `json:"diff"`               // unified diff; empty if the document was in force before
}

// compare sets what changes if the rules r replace a document, which is empty if nothing was published before. It returns an
// error for a change that needs a flag. file is the name of the new document.
func (o *rulesOptions) compare(result *published, document []byte, r *rules.Rules, file string) error {
	before, err := o.check(document)
	if err != nil {
		before = nil // this version of weir cannot parse it
	}
	switch {
	case o.unlimited || r.Enforces() || before != nil && !before.Enforces():
	case r.Len() == 0:
		return fmt.Errorf("%s: nothing was published, because the document has no rules; %s", file, unlimitedText)
	default:
		return fmt.Errorf("%s: nothing was published, because no rule refuses a request; %s", file, unlimitedText)
	}
	switch {
	case before != nil:
		result.Restarts, _ = rules.Moved(before, r)
		if before.Refusal() != r.Refusal() {
			result.Refusal = r.Refusal()
		}
	case len(document) > 0:
		result.Restarts = []string{everyCount}
	}
	if len(result.Restarts) > 0 && !o.restartCounts {
		return fmt.Errorf("%s; callers would get the full quota of these limits again; to accept this, add --restart-counts",
			restartText(result.Restarts))
	}
	return nil
}

const unlimitedText = "callers would have no limit; to accept this, add --unlimited"

// publish publishes the document in a file.
func (o *rulesOptions) publish(c *cobra.Command, file string, document []byte, note string) error {
	r, err := o.check(document)
	if problems, mistaken := errors.AsType[rules.Problems](err); mistaken {
		return errors.Join(checked{File: file, Problems: problems}.show(c), command.ExitError{Code: 1})
	}
	kept, err := o.versions(c.Context())
	if err != nil {
		return err
	}
	if err := o.checkSource(c, kept); err != nil {
		return err
	}
	was, before, err := kept.Get(c.Context(), 0)
	if err != nil && !errors.Is(err, rulestore.ErrNoRules) {
		return o.explain(err)
	}
	result := published{Version: was, Diff: udiff.Unified(nameOf(was), file, lines(before), lines(document))}
	if result.Diff != "" {
		if err := o.compare(&result, before, r, file); err != nil {
			return err
		}
		result.Replaces = was.Version
		result.Version, err = kept.Publish(c.Context(), time.Now(), document, note, was.Version, r.Version())
		if err != nil {
			return o.explain(err)
		}
	}
	return show(c, result, result.print)
}

func (r published) print(p *printer) {
	version := command.RulesVersion(r.Version.Version)
	if r.Diff == "" {
		p.line("nothing was published: %s, which is in force, has the same document", version)
		return
	}
	p.WriteString(r.Diff)
	if len(r.Restarts) > 0 {
		p.line("%s", restartText(r.Restarts))
	}
	if r.Refusal != "" {
		p.line("refusals get the form %s; those of a REST API keep theirs until its next deployment with this document", r.Refusal)
	}
	p.line("published %s; functions with rulesFrom=table use it within a minute", version)
}

// lines formats a JSON document with one value per line, for a diff.
func lines(document []byte) string {
	var b bytes.Buffer
	if json.Indent(&b, bytes.TrimSpace(document), "", "  ") != nil {
		return string(document)
	}
	return b.String() + "\n"
}

func (o *rulesOptions) get(c *cobra.Command, version int64, deployed bool) error {
	kept, err := o.versions(c.Context())
	if err != nil {
		return err
	}
	v, document, err := kept.Get(c.Context(), version)
	if deployed {
		v, document, err = kept.Deployed(c.Context(), o.namespace)
	}
	if deployed && errors.Is(err, rulestore.ErrNoRules) {
		return fmt.Errorf("--deployed: no rules of a deployment of namespace %s in table %s; want a deployment without rulesFrom", o.namespace,
			o.table)
	} else if err != nil {
		return o.explain(err)
	}
	return show(c, struct {
		rulestore.Version
		Document json.RawMessage `json:"document"`
	}{v, document}, func(p *printer) { p.WriteString(string(document)) })
}

func (o *rulesOptions) history(c *cobra.Command) error {
	kept, err := o.versions(c.Context())
	if err != nil {
		return err
	}
	all, err := kept.History(c.Context())
	if err != nil {
		return o.explain(err)
	}
	return show(c, all, func(p *printer) {
		if len(all) == 0 {
			p.line("no rules in %s; publish them with weir rules publish FILE", o.table)
			return
		}
		rows := [][]string{{"VERSION", "PUT", "BYTES", "NOTE"}}
		for _, v := range all {
			rows = append(rows, []string{strconv.FormatInt(v.Version, 10), v.Published.UTC().Format(time.RFC3339), strconv.Itoa(v.Bytes), v.Note})
		}
		p.table(rows...)
	})
}
