package simulate

import "time"

// Prices in dollars in us-east-1, from infra/COSTS.md. API Gateway and logs cost the same for all
// limits and are left out.
const (
	pricePerWrite   = 0.625 / 1e6 // DynamoDB on demand
	pricePerRead    = 0.125 / 1e6
	pricePerECPU    = 0.0023 / 1e6 // ElastiCache Serverless
	ecpuPerScript   = 3
	pricePerRequest = 0.20 / 1e6 // Lambda, arm64
	pricePerGBs     = 13.33 / 1e6
	gigabytes       = 0.5 // authorizer's memory in GB
	billing         = time.Millisecond
)

func (s *simulation) dollars(requests float64) float64 {
	cost := (requests-float64(s.tally.AtEdge))*pricePerRequest + float64(s.tally.billed)*billing.Seconds()*gigabytes*pricePerGBs
	if s.Store == DynamoDB {
		cost += float64(s.meter.writes)*pricePerWrite + float64(s.meter.reads)*pricePerRead
	} else {
		cost += float64(s.meter.writes) * ecpuPerScript * pricePerECPU
	}
	return cost / requests * 1e6
}
