package template

import (
	"fmt"
	"strings"
	"time"
)

// readFunctions reads the Lambda functions with their versions and aliases. It ignores their code,
// because the caller of gateway.New supplies the handlers.
func (d *parser) readFunctions() {
	d.byARN, d.functionLogs = map[string]Function{}, map[string]bool{}
	d.each("AWS::Lambda::Function", func(id string, q *properties) {
		f := Function{
			ID:      id,
			Timeout: time.Duration(q.number("Timeout", 3, 1, 900)) * time.Second,
			Memory:  q.number("MemorySize", 128, 128, 10240),
			ARN:     functionARN(d.names[id]),
		}
		if environment := q.object("Environment"); environment != nil {
			f.Environment = environment.textMap("Variables")
			environment.done()
		}
		if logging := q.object("LoggingConfig"); logging != nil && logging.has("LogGroup") {
			d.functionLogs[logging.text("LogGroup")] = true
		}
		q.inert("Architectures", "Code", "DeadLetterConfig", "Description", "EphemeralStorage", "FunctionName",
			"Handler", "KmsKeyArn", "Layers", "ReservedConcurrentExecutions", "Role", "Runtime",
			"RuntimeManagementConfig", "SnapStart", "Tags", "TracingConfig", "VpcConfig")
		if twin, taken := d.byARN[f.ARN]; taken {
			d.p.add(q.at("FunctionName"), "got %q, which is the name of %s too", d.names[id], twin.ID)
		}
		d.byARN[f.ARN] = f
		d.template.functions = append(d.template.functions, f)
	})
	d.each("AWS::Lambda::Version", func(id string, q *properties) {
		d.qualify(d.names[id], q)
		q.inert("CodeSha256", "Description", "ProvisionedConcurrencyConfig", "RuntimePolicy")
	})
	d.each("AWS::Lambda::Alias", func(id string, q *properties) {
		d.qualify(d.names[id], q)
		q.required("Name")
		q.inert("Description", "FunctionVersion", "ProvisionedConcurrencyConfig")
	})
}

// qualify registers the ARN of a version or an alias. All versions and aliases of a function run
// the same code here.
func (d *parser) qualify(arn string, q *properties) {
	name := q.required("FunctionName")
	whole := name
	if !strings.HasPrefix(name, functionARN("")) {
		whole = functionARN(name)
	}
	f, ok := d.byARN[whole]
	if !ok || whole != functionARN(d.names[f.ID]) {
		q.refuse("FunctionName", name, "a function of this template")
		return
	}
	if _, taken := d.byARN[arn]; taken {
		d.p.add(q.path, "got %q, which is another version or alias of %s too", arn, f.ID)
	}
	f.ARN = arn
	d.byARN[arn] = f
}

func (d *parser) function(q *properties, name, arn string) (Function, bool) {
	f, ok := d.byARN[arn]
	if !ok && arn != "" {
		q.refuse(name, arn, "the ARN of a function of this template")
	}
	return f, ok
}

// invokedFunction returns the function that an integration or an authorizer invokes. The property
// name is a URI of API Gateway that contains the ARN of the function.
func (d *parser) invokedFunction(q *properties, name string) (Function, bool) {
	uri := q.required(name)
	prefix := fmt.Sprintf("arn:%s:apigateway:%s:lambda:path/2015-03-31/functions/", partition, region)
	if inner, ok := strings.CutPrefix(uri, prefix); ok {
		if arn, ok := strings.CutSuffix(inner, "/invocations"); ok {
			return d.function(q, name, arn)
		}
	}
	if uri != "" {
		q.refuse(name, uri, prefix+"<function>/invocations")
	}
	return Function{}, false
}
