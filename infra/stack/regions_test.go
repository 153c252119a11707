package stack_test

import (
	"strings"
	"testing"

	"github.com/weir-limits/weir/functions/contract"
	"github.com/weir-limits/weir/infra/stack"
	"github.com/weir-limits/weir/limiter/telemetry"
)

// The first region has the records of all regions. The last one publishes the rules, when all have the code that reads
// them. Each region has counters whose name the others
// know, and watches what moves between them.
func TestStack_regions(t *testing.T) {
	last := templateOf(t, func(s *stack.Settings) {
		variants["regions"](s)
		s.Regions = []string{"eu-central-1", s.Region}
	})
	last.one(t, "Custom::WeirRules", "")
	if _, policy := last.one(t, "AWS::IAM::Policy", "LimitsPublisherRole"); !sameActions(allowed(t, last, policy)[recordsIn("us-east-1")],
		contract.CreateActions()) {
		t.Errorf("the publisher: got %s, want the permission to write the rules into the replica", text(t, policy.Properties))
	}
	for name, owner := range map[string]bool{"regions": true, "regions-two": false} {
		content := synthesize(t, variants[name]).template
		made := parse(t, content)
		_, counters := made.one(t, "AWS::DynamoDB::Table", "")
		if got := counters.Properties["TableName"]; got != "weir-dev-counters" {
			t.Errorf("%s: counters: got the name %v, want weir-dev-counters", name, got)
		}
		_, tables := made.of("AWS::DynamoDB::GlobalTable")
		_, published := made.of("Custom::WeirRules")
		if len(tables) != map[bool]int{true: 1}[owner] || len(published) > 0 {
			t.Fatalf("%s: got %d global tables and %d publications, want the table in the first region, and the publication in the last", name,
				len(tables), len(published))
		}
		if owner {
			records := tables[0]
			for _, replica := range records.Properties["Replicas"].([]any) {
				if got, want := text(t, replica), `{"DeletionProtectionEnabled":true,`+
					`"PointInTimeRecoverySpecification":{"PointInTimeRecoveryEnabled":true},"Region":"`; !strings.HasPrefix(got, want) {
					t.Errorf("a replica of the records: got %s, want protection and backups", got)
				}
			}
			if n := len(records.Properties["Replicas"].([]any)); n != 3 || records.DeletionPolicy != "Retain" ||
				records.Properties["TableName"] != "weir-dev-records" {
				t.Errorf("records: got %d replicas and %s, want 3, retained under the name weir-dev-records", n, text(t, records))
			}
		}
		for _, function := range []string{"LimitsAuthorizer", "LimitsHandler"} {
			_, f := made.one(t, "AWS::Lambda::Function", function)
			variables := f.Properties["Environment"].(map[string]any)["Variables"].(map[string]any)
			if got := variables[contract.VariableRegions]; got != map[bool]string{true: "us-east-1,eu-central-1,ap-southeast-1",
				false: "eu-central-1,us-east-1,ap-southeast-1"}[owner] {
				t.Errorf("%s: %s: got the regions %v, want the list of the setting", name, function, got)
			}
		}
		_, dashboard := made.one(t, "AWS::CloudWatch::Dashboard", "")
		for _, metric := range []string{telemetry.RegionCalls, telemetry.RegionsFailed, telemetry.TransfersLost} {
			if !strings.Contains(text(t, dashboard.Properties), metric) {
				t.Errorf("%s: dashboard: got no %s, want it", name, metric)
			}
		}
		for _, alarm := range []string{"weir-dev/regions-failed", "weir-dev/share-lost"} {
			if !strings.Contains(string(content), `"AlarmName": "`+alarm+`"`) {
				t.Errorf("%s: got no alarm %s, want it", name, alarm)
			}
		}
	}
}

// The first of several regions becomes the only one, with the settings that infra/OPERATIONS.md names. CloudFormation keeps
// the records, which the template drops, and functions read them under the same name. It replaces the counters, and no
// resource of a fixed name.
func TestStack_regions_toOne(t *testing.T) {
	before := templateOf(t, variants["regions"])
	after := templateOf(t, withRecords)
	if problems := checkReplacements(createOnlyProperties(t), before.Resources, after.Resources); len(problems) > 0 {
		t.Errorf("got %q, want an update without problems", problems)
	}
	if _, records := before.one(t, "AWS::DynamoDB::GlobalTable", ""); records.DeletionPolicy != "Retain" ||
		records.Properties["TableName"] != "weir-dev-records" {
		t.Errorf("records before: got %s, want weir-dev-records, retained", text(t, records))
	}
	if ids, _ := after.of("AWS::DynamoDB::GlobalTable"); len(ids) > 0 {
		t.Errorf("records after: got %v, want the table outside of the stack", ids)
	}
	named, was := before.one(t, "AWS::DynamoDB::Table", "")
	generated, is := after.one(t, "AWS::DynamoDB::Table", "")
	if named != generated || was.Properties["TableName"] == nil || is.Properties["TableName"] != nil {
		t.Errorf("counters: got %s %s, then %s %s, want a replacement without a fixed name", named, text(t, was), generated, text(t, is))
	}
	if _, rules := after.one(t, "Custom::WeirRules", ""); rules.Properties[contract.PropertyTable] != "weir-dev-records" {
		t.Errorf("publication of the rules: got %s, want weir-dev-records", text(t, rules))
	}
	for _, function := range []string{"LimitsAuthorizer", "LimitsHandler"} {
		_, f := after.one(t, "AWS::Lambda::Function", function)
		variables := f.Properties["Environment"].(map[string]any)["Variables"].(map[string]any)
		if variables[contract.VariableRegions] != nil || variables[contract.VariableRecordsTable] != "weir-dev-records" {
			t.Errorf("%s: got %s, want the records weir-dev-records, and no regions", function, text(t, variables))
		}
	}
}

// Each region has a stack with the same name, in the order of the setting.
func TestSettings_Each(t *testing.T) {
	read := func(given map[string]string) (stack.Settings, error) {
		return stack.Read([]byte("{}"), given)
	}
	s, err := read(map[string]string{"stage": "prod", "regions": "eu-central-1,us-east-1"})
	if all := s.Each(); err != nil || len(all) != 2 || all[0].Region != "eu-central-1" || all[1].Region != "us-east-1" ||
		len(all[1].Regions) != 2 {
		t.Errorf("got %+v and error %v, want a stack in each region", all, err)
	}
	all := stack.NewEach(cdkApp(t), settings(t, func(s *stack.Settings) { s.Regions = []string{"us-east-1", "us-west-2", "us-east-2"} }))
	for i, made := range all[1:] {
		if d := *made.Dependencies(); len(d) != 1 || *d[0].Node().Id() != *all[i].Node().Id() {
			t.Errorf("%s: got it after %d stacks, want it after %s", *made.Node().Id(), len(d), *all[i].Node().Id())
		}
	}
	s, err = read(map[string]string{"stage": "prod", "regions": "eu-central-1,us-east-1:0"})
	if all := s.Each(); err != nil || all[1].Region != "us-east-1" {
		t.Errorf("a region without share: got %+v and error %v, want its stack", all, err)
	}
	s, err = read(nil)
	if err != nil || len(s.Each()) != 1 {
		t.Errorf("without regions: got %d stacks and error %v, want one", len(s.Each()), err)
	}
	for key, value := range map[string]string{"zones": "eu-central-1a,eu-central-1b"} {
		if _, err := read(map[string]string{"regions": "eu-central-1,us-east-1", key: value}); err == nil || !strings.HasPrefix(err.Error(),
			"-c regions=eu-central-1,us-east-1: want nothing with zones") {
			t.Errorf("regions with %s: got error %v, want one", key, err)
		}
	}
	for _, c := range []struct{ regions, region, want string }{
		{"eu-central-1,us-east-1", "us-east-2", "is in the region us-east-2"},
		{"eu-central-1", "eu-central-1", "REGIONS: got 1 regions, want 2 to 10"},
		{"eu-central-1:0,us-east-1", "us-east-1", "Regions: got eu-central-1:0 first"},
		{"eu-central-1,eu-central-1", "eu-central-1", "REGIONS: got eu-central-1 twice"},
	} {
		func() {
			defer func() {
				if err, _ := recover().(error); err == nil || !strings.Contains(err.Error(), c.want) {
					t.Errorf("%s in %s: got %v, want %q", c.regions, c.region, err, c.want)
				}
			}()
			stack.New(cdkApp(t), settings(t, func(s *stack.Settings) { s.Regions, s.Region = strings.Split(c.regions, ","), c.region }))
		}()
	}
}

// A deployment follows the deployed list: the number grows, one region joins or leaves, without share, and the first one stays.
func TestRead_deployed(t *testing.T) {
	for _, c := range []struct{ deployed, regions, records, want string }{
		{"", "3:eu-central-1,us-east-1,us-west-2", "", ""},
		{"none", "eu-central-1,us-east-1,us-west-2", "", ""},
		{"none", "", "", ""},
		{"eu-central-1", "", "", ""},
		{"2:eu-central-1,us-east-1", "2:eu-central-1,us-east-1", "", ""},
		{"eu-central-1", "eu-central-1,us-east-1", "", "also recordsTable, the records table of the deployed stack (eu-central-1)"},
		{"eu-central-1", "eu-central-1,us-east-1", "old", ""},
		{"eu-central-1,us-east-1", "", "", "also recordsTable, the records table of the deployed stack (eu-central-1,us-east-1)"},
		{"eu-central-1,us-east-1", "", "weir-dev-records", ""},
		// one region joins
		{"eu-central-1,us-east-1", "1:eu-central-1,us-east-1,us-west-2:0", "", ""},
		{"1:eu-central-1,us-east-1,us-west-2:0", "2:eu-central-1,us-east-1,us-west-2", "", ""},
		{"eu-central-1,us-east-1", "1:eu-central-1,us-west-2:0,us-east-1", "", ""},
		{"eu-central-1,us-east-1", "1:eu-central-1,us-east-1,us-west-2", "",
			"first 1: and the deployed list eu-central-1,us-east-1 with us-west-2:0: one"},
		{"1:eu-central-1,us-east-1", "2:eu-central-1,us-east-1,us-west-2:0,us-west-1:0", "",
			"first 2: and the deployed list 1:eu-central-1,us-east-1 with us-west-2:0: one"},
		// one region leaves
		{"2:eu-central-1,us-east-1,us-west-2", "3:eu-central-1,us-east-1,us-west-2:0", "", ""},
		{"3:eu-central-1,us-east-1,us-west-2:0", "4:eu-central-1,us-east-1", "", ""},
		{"2:eu-central-1,us-east-1,us-west-2", "3:eu-central-1,us-east-1", "",
			"first 3: and the deployed list 2:eu-central-1,us-east-1,us-west-2 with us-west-2:0: one"},
		{"2:eu-central-1,us-east-1:0,us-west-2:0,us-west-1", "3:eu-central-1,us-west-1", "",
			"first 3: and the deployed list 2:eu-central-1,us-east-1:0,us-west-2:0,us-west-1 without us-east-1: one"},
		// one replaces another
		{"1:eu-central-1,us-east-1", "2:eu-central-1,us-west-2:0", "",
			"first 2: and the deployed list 1:eu-central-1,us-east-1 with us-west-2:0: one"},
		{"1:eu-central-1,us-east-1:0", "2:eu-central-1,us-west-2:0", "kept",
			"first 2: and the deployed list 1:eu-central-1,us-east-1:0 with us-west-2:0: one"},
		// the number
		{"1:eu-central-1,us-east-1,us-west-2:0", "1:eu-central-1,us-east-1,us-west-2", "", "a number above 1 before the list, such as " +
			"2:eu-central-1,us-east-1,us-west-2, because"},
		{"2:eu-central-1,us-east-1", "2:eu-central-1,us-east-1:0", "", "a number above 2 before the list, such as 3:eu-central-1,us-east-1:0"},
		{"2:eu-central-1,us-east-1:0,us-west-2", "1:eu-central-1,us-west-2", "", "a number above 2 before the list"},
		{"2:eu-central-1,us-east-1", "eu-central-1,us-east-1", "", "a number above 2 before the list, such as 3:eu-central-1,us-east-1"},
		// the first region
		{"2:eu-central-1,us-east-1", "3:us-east-1,eu-central-1", "", "eu-central-1 first: it has the records"},
	} {
		given := map[string]string{"deployed": c.deployed, "regions": c.regions, "recordsTable": c.records}
		_, err := stack.Read([]byte("{}"), given)
		if want := "-c regions=" + c.regions + ": want " + c.want; (err == nil) != (c.want == "") || err != nil &&
			!strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s, then %s: got error %v, want %q", c.deployed, c.regions, err, c.want)
		}
	}
	deployed := synthesize(t, variants["regions"]).template
	if want := `"Value": "us-east-1,eu-central-1,ap-southeast-1"`; !strings.Contains(string(deployed), want) {
		t.Errorf("outputs: got none with %s, want the list, with which the next deployment compares its own", want)
	}
}
