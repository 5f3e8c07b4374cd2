"""The coordinator's long-lived process: durable jobs, region state, keeper of the regional run."""
