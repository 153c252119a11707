package account_test

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	watch "github.com/aws/aws-sdk-go-v2/service/cloudwatch/types"

	"github.com/weir-limits/weir/local/verify"
)

// steady are the metrics that AWS writes for each resource with traffic, by namespace and the name of their dimension.
var steady = map[string][]string{
	"AWS/ApiGateway ApiId":      {"Count"},
	"AWS/ApiGateway ApiName":    {"Count"},
	"AWS/DynamoDB TableName":    {"ConsumedWriteCapacityUnits"},
	"AWS/ElastiCache clusterId": {"ElastiCacheProcessingUnits"},
	"AWS/Lambda FunctionName":   {"Errors", "Invocations", "Throttles", "Duration", "ConcurrentExecutions"},
}

// A healthy deployment of each template has all metrics of its alarms: AWS writes the others only when something happens.
func TestStack_alarmMetrics_templates(t *testing.T) {
	paths, err := filepath.Glob("../../../infra/golden/*.template.json")
	if err != nil || len(paths) == 0 {
		t.Fatalf("templates: got %v, error %v, want some", paths, err)
	}
	for _, path := range paths {
		t.Run(filepath.Base(path), func(t *testing.T) {
			template, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			here := &cloud{templates: map[string]string{"": string(template)}}
			here.alarms, here.conditions = alarmsOf(t, template)
			here.add(time.Now().Add(-20*time.Minute), "Weir/dev", "Allowed", "", 1)
			for _, a := range here.alarms {
				here.exist(a)
			}
			if o := here.open(t).Check(t.Context(), "alarm-metrics"); o.Outcome != verify.Pass {
				t.Errorf("got %+v, want a pass", o)
			}
		})
	}
}

// exist adds the steady metrics of the resources of an alarm.
func (c *cloud) exist(a watch.MetricAlarm) {
	sources := []watch.Metric{{Namespace: a.Namespace, Dimensions: a.Dimensions}}
	for _, m := range a.Metrics {
		if m.MetricStat != nil {
			sources = append(sources, *m.MetricStat.Metric)
		}
	}
	for _, m := range sources {
		name, _, _ := strings.Cut(dimension(m.Dimensions), "=")
		for _, metric := range steady[aws.ToString(m.Namespace)+" "+name] {
			c.add(during(), *m.Namespace, metric, dimension(m.Dimensions), 0)
		}
	}
}

// alarmsOf returns the alarms of a template, and its conditions. A reference to a resource becomes its physical id.
func alarmsOf(t *testing.T, template []byte) (alarms []watch.MetricAlarm, conditions []string) {
	t.Helper()
	var made struct {
		Conditions map[string]any
		Resources  map[string]struct {
			Type       string
			Properties any
		}
	}
	if err := json.Unmarshal(template, &made); err != nil {
		t.Fatal(err)
	}
	for _, r := range made.Resources {
		if r.Type != "AWS::CloudWatch::Alarm" {
			continue
		}
		var properties struct {
			AlarmName, Namespace, MetricName *string
			Dimensions                       []watch.Dimension
			Metrics                          []watch.MetricDataQuery
		}
		text, err := json.Marshal(referred(r.Properties))
		if err == nil {
			err = json.Unmarshal(text, &properties)
		}
		if err != nil {
			t.Fatal(err)
		}
		alarms = append(alarms, watch.MetricAlarm{AlarmName: properties.AlarmName, Namespace: properties.Namespace, MetricName: properties.MetricName, Dimensions: properties.Dimensions, Metrics: properties.Metrics})
	}
	return alarms, slices.Collect(maps.Keys(made.Conditions))
}

// referred replaces each reference to a resource by its physical id.
func referred(v any) any {
	switch v := v.(type) {
	case map[string]any:
		if id, ok := v["Ref"].(string); ok {
			return physical(id)
		}
		for key := range v {
			v[key] = referred(v[key])
		}
	case []any:
		for i := range v {
			v[i] = referred(v[i])
		}
	}
	return v
}
