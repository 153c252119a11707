package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"slices"

	"github.com/weir-limits/weir/local/command"
	"github.com/weir-limits/weir/local/verify"
)

// openStack reads the stack and takes the URLs of the APIs from its outputs.
func (v *verifier) openStack(ctx context.Context) error {
	if production.MatchString(v.stackName) && !v.yes {
		return command.Usage("--stack: %s looks like production; the command exhausts limits of its caller there; to test it, add --yes", v.stackName)
	}
	stack, _, err := openStack(ctx, v.stackName, v.region)
	if err != nil {
		return err
	}
	stack.Log = v.log
	v.stack, v.Account = stack, stack
	document, err := stack.Template()
	if err != nil {
		return err
	}
	if v.Template, err = verify.ParseTemplate(document); err != nil {
		return err
	}
	if v.write {
		v.Faults = stack
	}
	v.URL, v.HTTPURL = cmp.Or(v.URL, stack.Outputs["RestUrl"]), cmp.Or(v.HTTPURL, stack.Outputs["HttpUrl"])
	v.RESTDistributionURL = cmp.Or(v.RESTDistributionURL, stack.Outputs["RestDistributionUrl"])
	v.HTTPDistributionURL = cmp.Or(v.HTTPDistributionURL, stack.Outputs["HttpDistributionUrl"])
	if stack.RefusesDirect() {
		v.DirectURL, v.DirectHTTPURL = v.URL, v.HTTPURL
		v.URL, v.HTTPURL = cmp.Or(v.RESTDistributionURL, v.URL), cmp.Or(v.HTTPDistributionURL, v.HTTPURL)
	}
	v.APIKeyHeader = cmp.Or(v.APIKeyHeader, stack.APIKeyHeader())
	v.readRegion(ctx)
	stack.REST, stack.HTTP = v.URL != "", v.HTTPURL != ""
	for _, address := range []string{v.URL, v.HTTPURL, v.RegionURL} {
		if production.MatchString(address) && !v.yes {
			return command.Usage("--stack: its URL %s looks like production; to test it, add --yes", address)
		}
	}
	return nil
}

// readRegion takes the URL of another region that shares limits from the stack of the same name there.
func (v *verifier) readRegion(ctx context.Context) {
	regions := v.stack.Regions()
	if regions == nil || v.RegionURL != "" {
		return
	}
	other := regions[(slices.Index(regions, v.stack.Region())+1)%len(regions)]
	stack, _, err := openStack(ctx, v.stackName, other)
	if err != nil {
		fmt.Fprintf(v.log, "region %s: %v; rows about two regions are skipped\n", other, err)
		return
	}
	output := "RestUrl"
	if v.URL == "" {
		output = "HttpUrl"
	}
	v.RegionURL = stack.Outputs[output]
}

// left prints the changes of the stack that could not be undone. It returns an error if there are any.
func (v *verifier) left() error {
	if v.stack == nil {
		return nil
	}
	lines := v.stack.Left()
	for _, line := range lines {
		fmt.Fprintln(v.log, line)
	}
	if len(lines) > 0 {
		return errors.New("the stack is not as before; run the commands above")
	}
	return nil
}

func (v *verifier) hosts() (hosts []string) {
	for _, address := range []string{v.URL, v.HTTPURL, v.FunctionURL, v.LayerURL, v.DomainURL, v.RegionURL, v.RESTDistributionURL, v.HTTPDistributionURL} {
		if u, err := url.Parse(address); err == nil && u.Hostname() != "" {
			hosts = append(hosts, u.Hostname())
		}
	}
	return hosts
}

// writeReport writes the report without private values.
func (v *verifier) writeReport(results []verify.Result) error {
	if v.report == "" {
		return nil
	}
	if err := os.WriteFile(v.report, []byte(verify.Report(command.Built().Version, results, v.hosts()...)), 0o600); err != nil {
		return fmt.Errorf("--report: %w", err)
	}
	return nil
}
