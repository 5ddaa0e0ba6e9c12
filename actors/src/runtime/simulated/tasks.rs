//! The concurrent tasks of one process. The simulation polls the ready ones in the order in which they began.

use std::{
    cell::RefCell,
    fmt,
    rc::Rc,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    task::{Context, Wake, Waker},
};

use futures_util::future::{FutureExt, LocalBoxFuture};

/// Maximum rounds until a process waits for something outside; more would be a task that wakes itself for ever.
const ROUNDS_MAX: usize = 10_000;

/// Set when the task is ready.
struct TaskWaker(AtomicBool);

impl Wake for TaskWaker {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Relaxed);
    }
}

struct Task {
    future: LocalBoxFuture<'static, ()>,
    woken: Arc<TaskWaker>,
}

/// The tasks of one process; cheap to clone.
#[derive(Clone, Default)]
pub(crate) struct Tasks(Rc<RefCell<Vec<Task>>>);

impl fmt::Debug for Tasks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Tasks")
    }
}

impl Tasks {
    pub(crate) fn spawn(&self, task: impl Future<Output = ()> + 'static) {
        // All tasks share one poll of a test, so none may yield to the test's runtime.
        let future = tokio::task::unconstrained(task).boxed_local();
        self.0.borrow_mut().push(Task {
            future,
            woken: Arc::new(TaskWaker(AtomicBool::new(true))),
        });
    }

    /// Drops everything, as a crash does.
    pub(crate) fn crash(&self) {
        let tasks = std::mem::take(&mut *self.0.borrow_mut());
        drop(tasks);
    }

    /// Polls until every task waits.
    pub(crate) fn run(&self) {
        for _ in 0..ROUNDS_MAX {
            let running = std::mem::take(&mut *self.0.borrow_mut());
            let mut left = Vec::with_capacity(running.len());
            let mut went_on = false;
            for mut task in running {
                let is_over = task.woken.0.swap(false, Relaxed) && {
                    went_on = true;
                    let waker = Waker::from(Arc::clone(&task.woken));
                    let polled = task.future.poll_unpin(&mut Context::from_waker(&waker));
                    polled.is_ready()
                };
                if !is_over {
                    left.push(task);
                }
            }
            let mut tasks = self.0.borrow_mut();
            left.append(&mut tasks);
            *tasks = left;
            if !went_on {
                return;
            }
        }
        panic!("a process never waits");
    }
}
