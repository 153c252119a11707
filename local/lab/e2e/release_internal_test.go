package e2e

import "testing"

func TestTemplateURL(t *testing.T) {
	for region, want := range map[string]string{
		"eu-central-1": "https://b.s3.eu-central-1.amazonaws.com/weir/weir.template.json", "cn-north-1": "https://b.s3.cn-north-1.amazonaws.com.cn/weir/weir.template.json",
	} {
		if got := templateURL("b", region); got != want {
			t.Errorf("%s: got %s, want %s", region, got, want)
		}
	}
}
