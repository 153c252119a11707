package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/weir-limits/weir/local/checkout"
	"github.com/weir-limits/weir/local/command"
	"github.com/weir-limits/weir/local/lab/testservers"
)

func samCommand() *cobra.Command {
	s := &sam{port: 3000}
	c := &cobra.Command{
		Use:   "sam",
		Short: "Run the APIs of a synthesized template with the SAM CLI",
		Long: "Run the REST API and the HTTP API of a synthesized template with `sam local start-api`, each at a separate port, with the " +
			"state in DynamoDB Local. " +
			"It needs the variables DYNAMODB_ENDPOINT, DOCKER_HOST and WEIR_TOOLS, which weir-tools with dynamodb,docker,tools sets. " +
			"The SAM CLI does not support gateway responses: it answers 403 instead of 429, and 502 instead of 401. weir serve answers 429 and 401.",
		Example: "  weir-tools with --install docker,dynamodb,tools -- weir-tools sam",
		Args:    command.Exactly(0),
		RunE: func(c *cobra.Command, _ []string) error {
			s.out, s.log = c.OutOrStdout(), c.ErrOrStderr()
			return s.run(c.Context())
		},
	}
	c.Flags().StringVar(&s.template, "template", "", "the template, synthesized for this machine's architecture; default "+
		"infra/cdk.out/Weir-dev.template.json")
	c.Flags().StringVar(&s.namespace, "namespace", "", "the namespace of this run's state in the table; default: the one in the template")
	c.Flags().Var(command.Port(&s.port), "port", "the port of the first API; the second API has the next port")
	return c
}

// sam is one run of the SAM CLI on a template.
type sam struct {
	template, namespace string
	port                int
	out, log            io.Writer
}

// samAPIs are the kinds of API in the order of their ports. A process serves one kind. It removes the
// resources of the other kind from the template.
var samAPIs = []struct{ name, kind, other string }{
	{"REST API", restAPIType, httpAPIType},
	{"HTTP API", httpAPIType, restAPIType},
}

func (s *sam) run(ctx context.Context) error {
	c, err := checkout.Find()
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "weir-sam-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	variables, files, err := samLocal(c)
	if err != nil {
		return err
	}
	if s.namespace != "" {
		variables["NAMESPACE"] = s.namespace
	}
	template, cli, err := samPrepare(ctx, cmp.Or(s.template, c.Path("infra", "cdk.out", "Weir-dev.template.json")), dir, files, variables,
		s.log)
	if err != nil {
		return err
	}
	return s.serve(ctx, template, cli, dir)
}

// serve runs the APIs until ctx ends.
func (s *sam) serve(ctx context.Context, template *samTemplate, cli *testservers.SAM, dir string) error {
	ended := make(chan error, len(samAPIs))
	var first string
	for i, api := range samAPIs {
		if !template.has(api.kind) {
			continue
		}
		path := filepath.Join(dir, fmt.Sprintf("template-%d.json", i))
		if err := template.write(path, api.other); err != nil {
			return err
		}
		server, err := cli.StartAPI(ctx, path, s.port+i, s.log)
		if err != nil {
			return err
		}
		defer server.Stop()
		server.Watch(ctx, func(err error) { ended <- fmt.Errorf("%s: the SAM CLI ended: %w", api.name, err) })
		fmt.Fprintf(s.out, "%s   %s\n", api.name, server.URL)
		first = cmp.Or(first, server.URL)
	}
	fmt.Fprintf(s.out, "\nTry:\n  curl -i %s/api/v1/search\n\n", first)
	select {
	case <-ctx.Done():
		return nil
	case err := <-ended:
		return err
	}
}

// samLocal returns variables and files that give the functions the credentials of this checkout. weir serve
// uses the same credentials.
func samLocal(c checkout.Checkout) (variables, files map[string]string, err error) {
	if _, err := c.Seed(); err != nil {
		return nil, nil, err
	}
	return map[string]string{
			"JWT_ISSUER": checkout.Issuer, "JWT_AUDIENCE": checkout.Audience, "JWT_ALGORITHMS": string(checkout.Algorithm),
			"SAMPLE_LOGIN": cmp.Or(os.Getenv("SAMPLE_LOGIN"), "demo:demo"),
		}, map[string]string{
			jwksFile: c.PublicKeysFile(), apiKeysFile: c.APIKeysFile(), apiKeySecretFile: c.APIKeySecretFile(), subjectKeyFile: c.SubjectKeyFile(),
		}, nil
}

// These are names of additional files in the folder of a function's code, and the path of that folder in
// a container.
const (
	jwksFile         = "jwks.json"
	apiKeysFile      = "apikeys.json"
	apiKeySecretFile = "apikey-secret"
	subjectKeyFile   = "subject-key"
	containerCode    = "/var/task/"
)

// samPrepare creates the table, and copies the functions of the template at path into dir, with files
// and variables. It finds the SAM CLI and an image for the functions.
func samPrepare(ctx context.Context, path, dir string, files, variables map[string]string, progress io.Writer) (*samTemplate,
	*testservers.SAM, error) {
	endpoint, docker, tools := os.Getenv("DYNAMODB_ENDPOINT"), os.Getenv("DOCKER_HOST"), os.Getenv("WEIR_TOOLS")
	if endpoint == "" || docker == "" || tools == "" {
		return nil, nil, errors.New("DYNAMODB_ENDPOINT, DOCKER_HOST and WEIR_TOOLS: all three are required; run make sam, or weir-tools with " +
			"--install dynamodb,docker,tools -- weir-tools sam")
	}
	template, err := readSAMTemplate(path)
	if err != nil {
		return nil, nil, err
	}
	inside, err := testservers.FromContainer(endpoint)
	if err != nil {
		return nil, nil, fmt.Errorf("DYNAMODB_ENDPOINT: %w", err)
	}
	if _, err := checkout.MakeTable(ctx, endpoint, checkout.Table); err != nil {
		return nil, nil, err
	}
	maps.Copy(variables, map[string]string{
		"WEIR_LOCAL": "true", "STORE": "dynamodb://" + checkout.Table, "RECORDS_TABLE": "", "RULES_FROM": "", "DYNAMODB_ENDPOINT": inside,
		"JWKS": containerCode + jwksFile, "API_KEYS_FILE": containerCode + apiKeysFile, "API_KEY_SECRET_FILE": containerCode + apiKeySecretFile,
		"SUBJECT_KEY_FILE": containerCode + subjectKeyFile,
	})
	if err := template.place(dir, files, variables); err != nil {
		return nil, nil, err
	}
	cli, err := testservers.NewSAM(ctx, tools, docker, dir, progress)
	return template, cli, err
}
