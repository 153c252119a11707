package boot_test

import (
	"bytes"
	"compress/gzip"
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"io"
	"math"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-lambda-go/cfn"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/weir-limits/weir/functions/boot"
	"github.com/weir-limits/weir/functions/contract"
	"github.com/weir-limits/weir/functions/lambdahttp"
	"github.com/weir-limits/weir/functions/records/recordstest"
	"github.com/weir-limits/weir/functions/rulestore"
	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/caller"
	"github.com/weir-limits/weir/limiter/rules"
	"github.com/weir-limits/weir/limiter/storetest"
)

// site is a deployment whose rules change while its environments run.
type site struct {
	t            *testing.T
	now          time.Time
	client       *dynamodb.Client
	variables    []string // of every environment
	environments []*lambdahttp.Environment
	published    func(document string) // puts a document into force
}

func newSite(t *testing.T, store string) *site {
	t.Helper()
	client, table := recordstest.Table(t, nil)
	s := &site{t: t, now: noon, client: client, variables: []string{
		"RECORDS_TABLE=" + table, "DYNAMODB_ENDPOINT=" + storetest.Server(t, "dynamodb", "DYNAMODB_ENDPOINT"), "WEIR_LOCAL=true",
	}}
	if store == "redis" {
		s.variables = append(s.variables, "STORE="+storetest.Server(t, "redis", "REDIS_URL"))
	} else {
		_, counters := recordstest.Table(t, nil)
		s.variables = append(s.variables, "STORE=dynamodb://"+counters)
	}
	return s
}

func (s *site) table() string { return strings.TrimPrefix(s.variables[0], "RECORDS_TABLE=") }

// fromDeployment plays CloudFormation: it invokes the function publisher for the custom resource of a stack. Lambda
// then repeats all earlier events of the stack, which get the same answer again.
func (s *site) fromDeployment() {
	s.variables = append(s.variables, "RULES_FROM="+contract.RulesDeployment)
	publish, err := boot.OpenPublisher(s.t.Context(), lookup(s.variables[1:3]...), func() time.Time { return s.now })
	if err != nil {
		s.t.Fatal(err)
	}
	server, answer := cloudFormation(s.t)
	var events []cfn.Event
	s.published = func(document string) {
		e := cfn.Event{RequestType: cfn.RequestCreate, RequestID: rand.Text(), ResponseURL: server.URL +
			s.now.Format("/?X-Amz-Date=20060102T150405Z"), StackID: "s", LogicalResourceID: "l", ResourceProperties: map[string]any{
			contract.PropertyTable: s.table(), contract.PropertyNamespace: "test", contract.PropertyDocument: packed(s.t, document),
		}}
		if len(events) > 0 {
			last := events[len(events)-1]
			e.RequestType, e.PhysicalResourceID, e.OldResourceProperties = cfn.RequestUpdate, "deployedrules#test", last.ResourceProperties
		}
		for _, e := range slices.Concat([]cfn.Event{e}, events) {
			*answer = cfn.Response{}
			if err := publish(s.t.Context(), e); err != nil || answer.Status != cfn.StatusSuccess || answer.RequestID != e.RequestID ||
				answer.PhysicalResourceID != "deployedrules#test" {
				s.t.Fatalf("%s: got answer %+v, error %v, want SUCCESS", e.RequestType, answer, err)
			}
		}
		events = append(events, e)
	}
}

// packed returns a document as the template of a stack contains it.
func packed(t *testing.T, document string) string {
	t.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	if _, err := io.WriteString(w, document); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return base64.StdEncoding.EncodeToString(b.Bytes())
}

// fromTable publishes documents as operators do.
func (s *site) fromTable() {
	s.variables = append(s.variables, "RULES_FROM="+contract.RulesTable)
	newest := int64(0)
	s.published = func(document string) {
		v, err := rulestore.New(s.client, s.table()).Publish(s.t.Context(), s.now, []byte(document), "", newest, 0)
		if err != nil {
			s.t.Fatal(err)
		}
		newest = v.Version
	}
}

// start starts an environment of a function whose bundle has a document, of a commit; 0 is no known commit.
func (s *site) start(document string, commit int) {
	s.t.Helper()
	variables := append(slices.Clone(s.variables), "RULES_FILE="+write(s.t, "rules.json", document))
	if commit != 0 {
		variables = append(variables, fmt.Sprint("RULES_VERSION=", noon.Unix()-1000+int64(commit)))
	}
	c := load(s.t, variables...)
	c.Share(s.client)
	store, closed, err := c.OpenStore(s.t.Context())
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { _ = closed() })
	e, err := c.Environment(s.t.Context(), storetest.Waiting(store), boot.Options{Logger: quiet.Logger,
		Clock: func() time.Time { return s.now }})
	if err != nil {
		s.t.Fatal(err)
	}
	s.environments = append(s.environments, e)
}

// use sends requests of a caller to all environments in turn, the newest first, until all refuse or the number
// of admitted requests is most. It returns this number, and the capacity by which the newest decided. For up to
// a minute, an older environment can refuse from its denial cache.
func (s *site) use(user string, most int64) (admitted, capacity int64) {
	s.t.Helper()
	newest := len(s.environments) - 1
	for i, refusals := 0, 0; admitted < most && refusals <= newest; i++ {
		e := s.environments[newest-i%(newest+1)]
		d, err := e.Limiter.Take(s.t.Context(), s.now, charges(e, user))
		if err != nil {
			s.t.Fatal(err)
		}
		if e == s.environments[newest] {
			capacity = d.Capacity
		}
		refusals++
		if d.Allowed {
			admitted, refusals = admitted+1, 0
		}
	}
	return admitted, capacity
}

// monthly returns a document without a version.
func monthly(requests int64) string {
	return fmt.Sprintf(`{"rules":[{"endpoint":"/a","limits":{"*":{"requests":%d,"period":"month"}}}]}`, requests)
}

func versioned(version int64, document string) string {
	return fmt.Sprintf(`{"version":%d,%s`, version, document[1:])
}

// reloaded returns the rules of e at an instant, after the reload that is due then.
func reloaded(t *testing.T, e *lambdahttp.Environment, now time.Time) *rules.Rules {
	t.Helper()
	_ = e.Rules.At(t.Context(), now)
	for range 20 { // on a busy machine, a reload can take longer than a request waits for it
		e.Rules.Wait()
	}
	return e.Rules.At(t.Context(), now)
}

func charges(e *lambdahttp.Environment, user string) []limiter.Charge {
	return e.Rules.Current().Charges(nil, http.MethodGet, rules.EncodedPath("/a"), caller.Caller{User: user})
}

// Whatever the source of the rules, a block acts within a minute, stays when rules are published, and ends at its end.
func TestConfig_rules_interventions(t *testing.T) {
	for _, store := range []string{"dynamodb", "redis"} {
		for source, from := range map[string]func(*site){"bundle": (*site).fromDeployment, "table": (*site).fromTable} {
			s := newSite(t, store)
			from(s)
			s.start(monthly(10), 1)
			blocked := func(want bool) {
				t.Helper()
				e := s.environments[0]
				if err := e.Rules.Refresh(t.Context(), s.now); err != nil {
					t.Fatal(err)
				}
				if got := e.Rules.Select(t.Context(), s.now, rules.Request{Method: http.MethodGet, Path: rules.EncodedPath("/a"),
					Caller: caller.Caller{User: "mallory"}}); (got.Blocked != nil) != want {
					t.Errorf("%s, %s: got %+v, want it blocked: %t", store, source, got, want)
				}
			}
			blocked(false)
			v, err := (&rules.Interventions{}).Put(s.now, rules.Intervention{Kind: "user", Value: "mallory", End: s.now.Add(time.Hour).Unix()})
			if err != nil {
				t.Fatal(err)
			}
			if err := rulestore.New(s.client, s.table()).Intervene(t.Context(), v, 0); err != nil {
				t.Fatal(err)
			}
			blocked(true)
			s.now = s.now.Add(time.Minute)
			s.published(monthly(20))
			blocked(true)
			s.now = s.now.Add(time.Hour)
			blocked(false)
		}
	}
}

// Whatever the source of the rules, a deployment, its rollback, another deployment and the rollback of its
// rollback decide for a caller that was counted before, in the environments of all deployments: at once
// after the first decision under the new version, and in all environments within a minute. No request is
// admitted above the limit in force.
func TestConfig_rules_rollback(t *testing.T) {
	const all = math.MaxInt64
	for _, store := range []string{"dynamodb", "redis"} {
		for source, from := range map[string]func(*site){"bundle": (*site).fromDeployment, "table": (*site).fromTable} {
			t.Run(store+"/"+source, func(t *testing.T) {
				s := newSite(t, store)
				from(s)
				user := rand.Text()
				for i, step := range []struct {
					name                     string
					commit                   int
					capacity, most, admitted int64
				}{
					{"first deployment", 1, 10, 3, 3},
					{"a document that is too strict", 2, 5, all, 1},
					{"its rollback", 1, 10, all, 5},
					{"a document that is too generous", 3, 100, 9, 9},
					{"its rollback", 1, 10, all, 0},
					{"rollback of the rollback", 3, 100, all, 80},
					{"redeployment of the first commit", 1, 10, all, 0},
					{"a corrected document", 4, 105, all, 5},
				} {
					document := monthly(step.capacity)
					s.published(document)
					s.start(document, step.commit)
					newest := s.environments[i]
					if err := newest.Rules.Refresh(t.Context(), s.now); err != nil {
						t.Fatal(err)
					}
					if admitted, capacity := s.use(user, step.most); admitted != step.admitted || capacity != step.capacity {
						t.Errorf("%d, %s: one environment has the new version: got %d admitted by a capacity of %d, want %d by %d", i, step.name, admitted,
							capacity, step.admitted, step.capacity)
					}
					s.now = s.now.Add(time.Minute)
					for j, e := range s.environments {
						_ = reloaded(t, e, s.now)
						d, err := e.Limiter.Peek(t.Context(), s.now, charges(e, user))
						if got, want := e.Rules.Current().Version(), newest.Rules.Current().Version(); err != nil || got != want ||
							d.Capacity != step.capacity {
							t.Errorf("%d, %s: environment %d: got version %d with a capacity of %d a minute later (error %v), want %d with %d", i, step.name, j,
								got, d.Capacity, err, want, step.capacity)
						}
					}
					left := int64(0)
					if step.most != all {
						left = 1
					}
					if admitted, capacity := s.use(user, 1); admitted != left || capacity != step.capacity {
						t.Errorf("%d, %s: a minute later: got %d admitted by a capacity of %d, want %d by %d", i, step.name, admitted, capacity, left,
							step.capacity)
					}
				}
			})
		}
	}
}

// Until the first publication of a deployment, the document of the bundle decides, as version 1. A caller that was
// counted under the bundle gets the published limits. An environment decides for such a caller by the published
// limits even before it has read the publication, although its bundle has other limits.
func TestConfig_rules_firstDeployment(t *testing.T) {
	s := newSite(t, "dynamodb")
	s.fromDeployment()
	user := rand.Text()
	want := func(what string, most, admitted, capacity, version int64) {
		t.Helper()
		if a, c := s.use(user, most); a != admitted || c != capacity {
			t.Errorf("%s: got %d admitted by a capacity of %d, want %d by %d", what, a, c, admitted, capacity)
		}
		if got := s.environments[len(s.environments)-1].Rules.Current().Version(); got != version {
			t.Errorf("%s: got version %d, want %d", what, got, version)
		}
	}
	s.start(monthly(10), 0)
	if err := s.environments[0].Rules.Refresh(t.Context(), s.now); err != nil {
		t.Fatal(err)
	}
	want("before", 3, 3, 10, 1)
	s.published(monthly(5))
	s.now = s.now.Add(time.Minute)
	_ = reloaded(t, s.environments[0], s.now)
	want("after", 1, 1, 5, noon.Unix())
	s.start(monthly(1000), 0)
	want("new environment that has not read the table", 100, 1, 5, 0)
}

// A change of the source decides for callers that were counted before if its version is above the previous one. A
// deployment publishes above the version of its document, with which the functions of an earlier deployment counted.
func TestConfig_rules_changedSource(t *testing.T) {
	s := newSite(t, "dynamodb")
	variables, user, ahead := slices.Clip(s.variables), rand.Text(), noon.Add(12*time.Hour).Unix()
	for i, step := range []struct {
		name        string
		from        func(*site)
		now         time.Time
		own         int64 // version in the document
		limit, want int64 // capacity
	}{
		{"bundle whose version is ahead of the clock", func(s *site) { s.published = func(string) {} }, noon, ahead, 10, 10},
		{"deployment", (*site).fromDeployment, noon.Add(time.Minute), ahead, 20, 20},
		{"table", (*site).fromTable, noon.Add(24 * time.Hour), 0, 40, 40},
		{"deployment again", (*site).fromDeployment, noon.Add(25 * time.Hour), 0, 50, 50},
	} {
		s.variables, s.environments, s.now = variables, nil, step.now
		document := monthly(step.limit)
		if step.own != 0 {
			document = versioned(step.own, document)
		}
		step.from(s)
		s.published(document)
		s.start(document, 0)
		if err := s.environments[0].Rules.Refresh(t.Context(), s.now); err != nil {
			t.Fatal(err)
		}
		if admitted, capacity := s.use(user, 1); admitted != 1 || capacity != step.want {
			t.Errorf("%d, %s: got %d admitted by a capacity of %d, want 1 by %d", i, step.name, admitted, capacity, step.want)
		}
	}
}
