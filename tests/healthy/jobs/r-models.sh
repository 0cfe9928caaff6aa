# R: errors inside try, warnings of models that do not converge, masked functions, "Residual standard error".
# needs: Rscript
# blind: R's try() prints "Error in f(x) : ..." exactly as a fatal error does
cat > job.R <<'R'
suppressWarnings(RNGkind(sample.kind = "Rounding"))
set.seed(1); x <- rnorm(50); y <- 2 * x + rnorm(50)
print(summary(lm(y ~ x)))
z <- rep(c(0, 1), each = 25); print(summary(glm(z ~ seq_along(z), family = binomial)))
try(log(-1)); try(log("a")); r <- tryCatch(stop("fatal error: skipped"), error = function(e) conditionMessage(e)); print(r)
as.numeric(c("1", "x")); sqrt(-2)
message("killed: 0, failed: 0")
print(warnings())
R
Rscript job.R
