# cargo test prints "panicked at" for tests that should panic.
# needs: cargo
export CARGO_NET_OFFLINE=true
cargo init --name solver --lib . 2>&1
cat > src/lib.rs <<'R'
pub fn divide(a: i64, b: i64) -> Result<i64, String> {
    let unused = 3;
    if b == 0 { Err("fatal: division by zero".into()) } else { Ok(a / b) }
}
#[cfg(test)]
mod tests {
    use super::*;
    #[test] fn error_is_reported() { assert!(divide(1, 0).is_err()); }
    #[test] #[should_panic(expected = "division by zero")] fn panics() { divide(1, 0).unwrap(); }
    #[test] #[ignore] fn timeout_killed() {}
    #[test] fn thread_failure_is_caught() {
        let result = std::thread::spawn(|| { panic!("worker thread failed") }).join();
        assert!(result.is_err());
    }
}
R
cargo build && cargo test -- --nocapture --test-threads=1
