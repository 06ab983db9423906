// Functions that glibc had not, or had under other names, when it was at version 2.27. The
// libraries and programs of the wheel look for them under the version GLIBC_2.2.5 (older_glibc.py)
// and find them here, with every glibc. x86-64.
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <gnu/libc-version.h>
#include <link.h>
#include <pthread.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

// libstdc++ uses atomic operations even while there is one thread.
char __libc_single_threaded = 0;

// The kernel fills the struct that glibc declares.
int fstatat(int folder, const char* path, struct stat* found, int flags) {
  return (int)syscall(SYS_newfstatat, folder, path, found, flags);
}
int stat(const char* path, struct stat* found) { return fstatat(AT_FDCWD, path, found, 0); }
int lstat(const char* path, struct stat* found) {
  return fstatat(AT_FDCWD, path, found, AT_SYMLINK_NOFOLLOW);
}
int fstat(int file, struct stat* found) { return (int)syscall(SYS_fstat, file, found); }
int stat64(const char* path, struct stat64* found) { return stat(path, (struct stat*)found); }
int lstat64(const char* path, struct stat64* found) { return lstat(path, (struct stat*)found); }
int fstat64(int file, struct stat64* found) { return fstat(file, (struct stat*)found); }

// Of the commands of fcntl, all have one argument of at most a pointer's size.
int fcntl64(int file, int command, ...) {
  va_list arguments;
  va_start(arguments, command);
  void* const argument = va_arg(arguments, void*);
  va_end(arguments);
  return fcntl(file, command, argument);
}

pid_t gettid(void) { return (pid_t)syscall(SYS_gettid); }

uint32_t arc4random(void) {
  uint32_t number;
  while (syscall(SYS_getrandom, &number, sizeof number, 0) != sizeof number) {
    if (errno != EINTR) abort();
  }
  return number;
}

// A glibc without this function waits on the clock of dates, so a change of the date during the
// wait changes its end.
int pthread_cond_clockwait(pthread_cond_t* condition, pthread_mutex_t* mutex, clockid_t clock,
                           const struct timespec* end) {
  static int (*wait)(pthread_cond_t*, pthread_mutex_t*, clockid_t, const struct timespec*);
  if (wait == NULL) wait = dlsym(RTLD_NEXT, "pthread_cond_clockwait");
  if (wait != NULL) return wait(condition, mutex, clock, end);
  struct timespec now, date;
  clock_gettime(clock, &now);
  clock_gettime(CLOCK_REALTIME, &date);
  date.tv_sec += end->tv_sec - now.tv_sec;
  date.tv_nsec += end->tv_nsec - now.tv_nsec;
  if (date.tv_nsec >= 1000000000) date.tv_nsec -= 1000000000, ++date.tv_sec;
  if (date.tv_nsec < 0) date.tv_nsec += 1000000000, --date.tv_sec;
  if (date.tv_sec < 0) return ETIMEDOUT;
  return pthread_cond_timedwait(condition, mutex, &date);
}

// Files that another thread opens meanwhile are missed, as everywhere before glibc 2.34.
int posix_spawn_file_actions_addclosefrom_np(posix_spawn_file_actions_t* actions, int first) {
  DIR* const files = opendir("/proc/self/fd");
  if (files == NULL) return errno;
  int error = 0;
  for (const struct dirent* entry; error == 0 && (entry = readdir(files)) != NULL;) {
    const int file = atoi(entry->d_name);
    if (file >= first && file != dirfd(files)) {
      error = posix_spawn_file_actions_addclose(actions, file);
    }
  }
  closedir(files);
  return error;
}

// The first versions of these are newer than GLIBC_2.2.5.
#define FIRST_VERSION(name, version) __asm__(".symver first_" #name ", " #name "@" version)
void* first_dlmopen(Lmid_t, const char*, int);
int first_pthread_condattr_setclock(pthread_condattr_t*, clockid_t);
int first_pthread_getname_np(pthread_t, char*, size_t);
int first_pthread_setname_np(pthread_t, const char*);
FIRST_VERSION(dlmopen, "GLIBC_2.3.4");
FIRST_VERSION(pthread_condattr_setclock, "GLIBC_2.3.3");
FIRST_VERSION(pthread_getname_np, "GLIBC_2.12");
FIRST_VERSION(pthread_setname_np, "GLIBC_2.12");
void* dlmopen(Lmid_t list, const char* path, int flags) { return first_dlmopen(list, path, flags); }
int pthread_condattr_setclock(pthread_condattr_t* attributes, clockid_t clock) {
  return first_pthread_condattr_setclock(attributes, clock);
}
int pthread_getname_np(pthread_t thread, char* name, size_t size) {
  return first_pthread_getname_np(thread, name, size);
}
int pthread_setname_np(pthread_t thread, const char* name) {
  return first_pthread_setname_np(thread, name);
}

// A program that was linked with glibc 2.34 or newer leaves its constructors to glibc. An older
// glibc runs only a function that the program passes.
static int RunConstructors(struct dl_phdr_info* info, size_t size, void* arguments) {
  (void)size;
  void (**functions)(int, char**, char**) = NULL;
  size_t bytes = 0;
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    if (info->dlpi_phdr[i].p_type != PT_DYNAMIC) continue;
    const ElfW(Dyn)* entry = (const ElfW(Dyn)*)(info->dlpi_addr + info->dlpi_phdr[i].p_vaddr);
    for (; entry->d_tag != DT_NULL; ++entry) {
      const uintptr_t at = info->dlpi_addr + entry->d_un.d_ptr;
      if (entry->d_tag == DT_INIT) ((void (*)(void))at)();
      if (entry->d_tag == DT_INIT_ARRAY) functions = (void (**)(int, char**, char**))at;
      if (entry->d_tag == DT_INIT_ARRAYSZ) bytes = entry->d_un.d_val;
    }
  }
  char** const words = arguments;
  int count = 0;
  while (words[count] != NULL) ++count;
  for (size_t i = 0; i < bytes / sizeof *functions; ++i) {
    functions[i](count, words, words + count + 1);
  }
  return 1;  // the first object is the program
}
static int ConstructProgram(int count, char** arguments, char** environment) {
  (void)count, (void)environment;
  return dl_iterate_phdr(RunConstructors, arguments) != 1;
}
int __libc_start_main(int (*main)(int, char**, char**), int count, char** arguments,
                      int (*construct)(int, char**, char**), void (*destroy)(void),
                      void (*end_loader)(void), void* stack) {
  __typeof__(__libc_start_main)* const start = dlsym(RTLD_NEXT, "__libc_start_main");
  const char* const version = gnu_get_libc_version();
  if (construct == NULL && version[0] == '2' && atoi(version + 2) < 34)
    construct = ConstructProgram;
  return start(main, count, arguments, construct, destroy, end_loader, stack);
}
