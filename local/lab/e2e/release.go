package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/cloudformation"
	formation "github.com/aws/aws-sdk-go-v2/service/cloudformation/types"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"

	"github.com/weir-limits/weir/functions/rulestore"
)

// The files of a release: the template, and the functions and the layer for an architecture.
const (
	releaseTemplate = "weir.template.json"
	architecture    = "arm64"
	releaseFolder   = "weir/" // in the bucket
)

// deployRelease deploys the template of a release, with a REST API that has an access log, and with a function that has
// the layer.
func (r *run) deployRelease(ctx context.Context, p map[string]string) error {
	if err := r.upload(ctx); err != nil {
		return fmt.Errorf("release: %w", err)
	}
	api, err := r.create(ctx, r.apiStack(), apiTemplate(r.stack, r.newRole))
	if err != nil {
		return fmt.Errorf("API: %w", err)
	}
	maps.Copy(p, map[string]string{
		"Namespace": strings.ToLower(strings.TrimPrefix(r.stack, "Weir-")), "CodeBucket": r.bucket, "CodePrefix": releaseFolder, "Architecture": architecture,
		"RestApiId": api["Api"], "Store": r.store, "AccessLogGroup": api["AccessLog"],
	})
	in := &cloudformation.CreateStackInput{
		StackName: &r.stack, TemplateURL: aws.String(templateURL(r.bucket, r.Config.Region)),
		Capabilities: []formation.Capability{formation.CapabilityCapabilityIam},
	}
	for _, key := range slices.Sorted(maps.Keys(p)) {
		in.Parameters = append(in.Parameters, formation.Parameter{ParameterKey: aws.String(key), ParameterValue: aws.String(p[key])})
	}
	limits, err := r.createFrom(ctx, in)
	if err != nil {
		return fmt.Errorf("limits: %w", err)
	}
	rules, err := os.ReadFile(r.Rules)
	if err != nil {
		return err
	}
	if _, err := rulestore.New(dynamodb.NewFromConfig(r.Config), limits["RecordsTable"]).Publish(ctx, time.Now(), rules, "make e2e", 0, 0); err != nil {
		return fmt.Errorf("rules: %w", err)
	}
	template, err := appTemplate(api, limits)
	if err != nil {
		return err
	}
	app, err := r.create(ctx, r.appStack(), template)
	if err != nil {
		return fmt.Errorf("application: %w", err)
	}
	r.urls = []string{"--url", app["RestUrl"], "--layer-url", app["LayerUrl"]}
	return nil
}

// templateURL returns the URL of the template in the bucket. The regions of China have another domain.
func templateURL(bucket, region string) string {
	domain := "amazonaws.com"
	if strings.HasPrefix(region, "cn-") {
		domain += ".cn"
	}
	return fmt.Sprintf("https://%s.s3.%s.%s/%s%s", bucket, region, domain, releaseFolder, releaseTemplate)
}

func (r *run) apiStack() string { return r.stack + "-api" }
func (r *run) appStack() string { return r.stack + "-app" }

// files returns the files of the release that the stack needs.
func (r *run) files() (files []string, err error) {
	archives, err := filepath.Glob(filepath.Join(r.Release, "*"+architecture+".zip"))
	if err == nil && len(archives) == 0 {
		err = fmt.Errorf("%s: no archives for %s; run make release", r.Release, architecture)
	}
	return append(archives, filepath.Join(r.Release, releaseTemplate)), err
}

func (r *run) storage() *s3.Client {
	return s3.NewFromConfig(r.Config, func(o *s3.Options) { o.UsePathStyle = r.Config.BaseEndpoint != nil }) // emulators have no host for each bucket
}

// upload creates the bucket and uploads the release.
func (r *run) upload(ctx context.Context) error {
	files, err := r.files()
	if err != nil {
		return err
	}
	in := &s3.CreateBucketInput{Bucket: &r.bucket}
	if r.Config.Region != "us-east-1" { // S3 rejects this region as a constraint
		in.CreateBucketConfiguration = &types.CreateBucketConfiguration{LocationConstraint: types.BucketLocationConstraint(r.Config.Region)}
	}
	client := r.storage()
	if _, err := client.CreateBucket(ctx, in); err != nil {
		return err
	}
	for _, name := range files {
		if err := r.put(ctx, client, name); err != nil {
			return err
		}
	}
	return nil
}

func (r *run) put(ctx context.Context, client *s3.Client, name string) error {
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	_, err = client.PutObject(ctx, &s3.PutObjectInput{Bucket: &r.bucket, Key: aws.String(path.Join(releaseFolder, filepath.Base(name))), Body: f})
	return err
}

func (r *run) bucketCommand() string { return "aws s3 rb --force s3://" + r.bucket }

// removeBucket deletes the bucket, if it exists.
func (r *run) removeBucket(ctx context.Context) error {
	client := r.storage()
	found, err := client.ListObjectsV2(ctx, &s3.ListObjectsV2Input{Bucket: &r.bucket})
	if _, none := errors.AsType[*types.NoSuchBucket](err); none {
		return nil
	}
	if err != nil {
		return err
	}
	for _, o := range found.Contents {
		if _, err := client.DeleteObject(ctx, &s3.DeleteObjectInput{Bucket: &r.bucket, Key: o.Key}); err != nil {
			return err
		}
	}
	_, err = client.DeleteBucket(ctx, &s3.DeleteBucketInput{Bucket: &r.bucket})
	return err
}

func layerVariables(outputs map[string]string) (all map[string]string, err error) {
	if err := json.Unmarshal([]byte(outputs["LayerVariables"]), &all); err != nil {
		return nil, fmt.Errorf("output LayerVariables: %w", err)
	}
	all["AWS_LAMBDA_EXEC_WRAPPER"] = "/opt/weir"
	return all, nil
}
