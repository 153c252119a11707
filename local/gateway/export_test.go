package gateway

import "context"

// Delivered waits until the subscribers of the access logs have received the lines of all requests
// that were answered before the call. CloudWatch Logs delivers a line some seconds later; this
// gateway sends it at once.
func (g *Gateway) Delivered(ctx context.Context) error {
	for _, s := range g.subscribers {
		if err := s.wait(ctx); err != nil {
			return err
		}
	}
	return nil
}

// wait blocks until the queue is empty and the function has received every event.
func (s *subscriber) wait(ctx context.Context) error {
	s.mu.Lock()
	sending := s.sending
	s.mu.Unlock()
	if sending == nil {
		return nil
	}
	select {
	case <-sending:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
