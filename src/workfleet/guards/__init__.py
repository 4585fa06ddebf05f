"""Guards: what a decorator below `@handler`, `@schedule` or `@public` puts around each call that workfleet makes."""
