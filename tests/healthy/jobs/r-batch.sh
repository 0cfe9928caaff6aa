# R CMD BATCH output with model summaries and time at the end.
# needs: R
cat > job.R <<'R'
x <- c(1, 2, NA, 4); mean(x); mean(x, na.rm = TRUE)
fit <- nls(y ~ a * exp(b * t), data = data.frame(t = 1:10, y = 3 * exp(0.2 * 1:10) + sin(1:10) / 9), start = list(a = 1, b = 0.1)); fit
optim(c(-1.2, 1), function(p) (1 - p[1])^2 + 100 * (p[2] - p[1]^2)^2)$convergence
stopifnot(TRUE); sessionInfo()
R
R CMD BATCH --vanilla job.R out.Rout && cat out.Rout
