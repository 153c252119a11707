package e2e

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/weir-limits/weir/limiter/storetest"
)

func TestTemplateURL(t *testing.T) {
	for region, want := range map[string]string{
		"eu-central-1": "https://b.s3.eu-central-1.amazonaws.com/weir/weir.template.json", "cn-north-1": "https://b.s3.cn-north-1.amazonaws.com.cn/weir/weir.template.json",
	} {
		if got := templateURL("b", region); got != want {
			t.Errorf("%s: got %s, want %s", region, got, want)
		}
	}
}

// Each reference in a template names one of its resources. The URLs in the outputs end with the stage.
func TestTemplates(t *testing.T) {
	app := storetest.Must(appTemplate(map[string]string{"Api": "api"}, map[string]string{"LayerVariables": "{}", "LayerSubnetIds": "subnet"}))
	for name, template := range map[string][]byte{"keys": issuerTemplate("issuer", []byte("{}")), "": apiTemplate("api", true), "e2e": app} {
		var all struct {
			Resources map[string]struct{ Properties struct{ StageName string } }
			Outputs   map[string]struct{ Value any }
		}
		if err := json.Unmarshal(template, &all); err != nil {
			t.Fatal(err)
		}
		for _, found := range regexp.MustCompile(`"(?:Ref":|Fn::GetAtt":\[)"(\w+)"`).FindAllStringSubmatch(string(template), -1) {
			if _, ok := all.Resources[found[1]]; !ok {
				t.Errorf("%s: got a reference to %s, want a resource of the template", name, found[1])
			}
		}
		if stage := all.Resources["Stage"].Properties.StageName; stage != name {
			t.Errorf("stage: got %q, want %q", stage, name)
		}
		if urls := fmt.Sprint(all.Outputs["URL"].Value, all.Outputs["RestUrl"].Value); name != "" && !strings.Contains(urls, " /"+name+"]") {
			t.Errorf("URL: got %s, want one with the stage %s", urls, name)
		}
	}
}
